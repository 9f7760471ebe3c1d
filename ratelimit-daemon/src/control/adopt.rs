//! What the kernel holds and the database does not know, after that was damaged or is gone: bans and allows are kept.

use jiff::Timestamp;
use ratelimit_common::ListEntry;
use tracing::warn;

use super::{
    controller::Controller,
    intent::Edit,
    store::{AllowRow, BanRow, Found},
};
use crate::{clock, origin::Origin, prefix::Prefix};

/// Who is told to have set what is kept.
const AUTHOR: &str = "ratelimitd";
/// Why it is told to be there.
const REASON: &str = "kept from the kernel: the database did not have it";

impl Controller {
    /// Brings what is intended to what the kernel holds, where the database cannot be trusted: bans and allows that the
    /// kernel does not hold are older than the damage and were ended since; bans and allows that nothing intended explains are kept.
    ///
    /// A machine that was booted since holds nothing: then what is left of the database is all that is known.
    pub(super) fn adopt_lists(&mut self) -> anyhow::Result<()> {
        if *self.store.found() == Found::Sound {
            return Ok(());
        }
        let held: Vec<(Prefix, ListEntry)> = self.enforcer.entries().collect();
        if held.is_empty() {
            return self.store.end_rescue();
        }
        let mut edits = self.ended_meanwhile();
        self.make_intended(&edits);
        let ended = edits.len();
        for (prefix, entry) in held {
            let kept = self.unexplained(prefix, entry);
            self.make_intended(&kept);
            edits.extend(kept);
        }
        self.unwritten.write(&edits, &mut self.store);
        let kept = edits.len() - ended;
        if !edits.is_empty() {
            warn!(
                kept,
                ended,
                "the bans and allows of the kernel hold, as the database does not know all of them"
            );
        }
        self.store.end_rescue()
    }

    fn ended_meanwhile(&self) -> Vec<Edit> {
        let bans = self.intent.bans().iter();
        let ended = bans.filter(|((prefix, _), row)| {
            let held = self.enforcer.entry(*prefix);
            held.and_then(|entry| entry.banned_until()) < Some(row.until)
        });
        let bans = ended.map(|((prefix, origin), _)| Edit::Ban(*prefix, origin.clone(), None));
        let allows = self.intent.allows().iter();
        let ended = allows.filter(|(prefix, row)| {
            let held = self.enforcer.entry(**prefix);
            held.and_then(|entry| entry.allowed_until()) < Some(row.until)
        });
        bans.chain(ended.map(|(prefix, _)| Edit::Allow(*prefix, None)))
            .collect()
    }

    /// What is to be intended so that the kernel holds of a prefix what it does. The prefixes around it come before it.
    fn unexplained(&self, prefix: Prefix, held: ListEntry) -> Vec<Edit> {
        let intended = self.rules.sum(prefix);
        let mut edits = Vec::new();
        let until = held.allowed_until().filter(|until| *until > clock::now());
        if let Some(until) = until.filter(|until| Some(*until) > intended.allowed_until()) {
            let allow = AllowRow {
                until,
                since: Timestamp::now(),
                reason: Some(REASON.to_owned()),
                author: AUTHOR.to_owned(),
            };
            edits.push(Edit::Allow(prefix, Some(allow)));
        }
        let until = held.banned_until().filter(|until| *until > clock::now());
        if let Some(until) = until.filter(|until| Some(*until) > intended.banned_until()) {
            let ban = BanRow {
                until,
                since: Timestamp::now(),
                reason: Some(REASON.into()),
                author: AUTHOR.into(),
            };
            edits.push(Edit::Ban(prefix, Origin::Manual, Some(ban)));
        }
        edits
    }

    fn make_intended(&mut self, edits: &[Edit]) {
        for edit in edits {
            self.intent.edit(edit.clone());
            for prefix in edit.prefixes() {
                self.compile_prefix(prefix);
            }
        }
    }
}
