//! What the kernel holds and the database does not know, after that was damaged or is gone: bans and allows are kept.
//!
//! Bans that come again by themselves ([`renewed`]) are kept as a list of their own, until all that tells them has done so.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use ratelimit_common::{Instant, ListEntry};
use ratelimit_core::{
    intent::{
        AllowRow, BanRow, Edit, FOREVER,
        list::{self, List},
        renewed,
    },
    lists::{Action, ReasonId, Reasons},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::{controller::Controller, state::State, store::Found};
use crate::clock;

/// Who is told to have set what is kept.
const AUTHOR: &str = "ratelimitd";
/// Why it is told to be there.
const REASON: &str = "kept from the kernel: the database did not have it";

/// The list of bans that come again. No file is called so: the configuration takes no such name.
pub const KEPT: &str = "[kept]";

/// Bans that come again, as they are found: the wider prefixes come first.
#[derive(Default)]
struct Renewed {
    entries: Vec<list::ListEntry>,
    /// Those around the last one.
    around: Vec<(Prefix, Instant)>,
}

impl Renewed {
    /// Adds a ban, unless it says what the one of a prefix around it does.
    fn add(&mut self, prefix: Prefix, until: Instant) {
        while self
            .around
            .last()
            .is_some_and(|(outer, _)| !outer.covers(prefix))
        {
            self.around.pop();
        }
        if self.around.iter().any(|(_, outer)| *outer >= until) {
            return;
        }
        self.around.push((prefix, until));
        self.entries.push(list::ListEntry {
            prefix,
            until: if until == renewed::FOREVER {
                FOREVER
            } else {
                until
            },
            reason: ReasonId::NONE,
        });
    }
}

impl State {
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
        let mut again = Renewed::default();
        for (prefix, entry) in held {
            let kept = self.unexplained(prefix, entry, &mut again);
            self.make_intended(&kept);
            edits.extend(kept);
        }
        edits.extend(self.keep_renewed(again.entries));
        self.unwritten.write(&edits, &mut self.store);
        let bans = |edit: &Edit| edit.prefixes().count();
        let kept: usize = edits[ended..].iter().map(bans).sum();
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
        let ended = bans.filter(|((prefix, origin), row)| {
            let held = self.enforcer.entry(*prefix);
            let until = renewed::end_of_ban(origin, row.until);
            held.and_then(|entry| entry.banned_until()) < Some(until)
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
    fn unexplained(&self, prefix: Prefix, held: ListEntry, again: &mut Renewed) -> Vec<Edit> {
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
        let until = until.filter(|until| Some(*until) > intended.banned_until());
        if let Some(until) = until.filter(|until| renewed::is_renewed(*until)) {
            again.add(prefix, until);
        } else if let Some(until) = until {
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

    /// Intends the bans that come again as a list.
    fn keep_renewed(&mut self, entries: Vec<list::ListEntry>) -> Option<Edit> {
        if entries.is_empty() {
            return None;
        }
        let name: Arc<str> = KEPT.into();
        let mut entries: BTreeMap<Prefix, list::ListEntry> =
            entries.into_iter().map(|it| (it.prefix, it)).collect();
        let mut reasons = Reasons::default();
        let reason = reasons.add(REASON);
        if let Some(before) = self.intent.lists().get(&name) {
            for entry in before.entries() {
                entries.entry(entry.prefix).or_insert(*entry);
            }
        }
        for entry in entries.values_mut() {
            entry.reason = reason;
        }
        // As of a file, so that the kernel tells them apart once more.
        let list = List::new(
            Action::Ban,
            Some(KEPT.into()),
            Timestamp::now(),
            AUTHOR.into(),
        );
        let list = list.with_entries(entries.into_values().collect(), reasons);
        let (_, edit) = self.list_edit(&name, Some(list));
        self.make_intended(edit.as_slice());
        edit
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

impl Controller {
    /// Ends the bans that were kept until what tells them has done so: files of lists were read, and `CrowdSec` answered.
    pub(super) fn end_renewed(&mut self) {
        if !self.state.intent.lists().contains_key(KEPT) {
            return;
        }
        let mut names = self.state.intent.config.lists.keys();
        let are_read = names.all(|name| self.list_files.state(name).read.is_some());
        let has_answered =
            self.state.intent.config.crowdsec.is_none() || self.crowdsec.has_answered();
        if !(are_read && has_answered) {
            return;
        }
        let (difference, edit) = self.state.list_edit(&KEPT.into(), None);
        match self.state.edit(edit.as_slice()) {
            Ok(_) => info!(
                entries = difference.removed,
                "lists and CrowdSec say again whom they ban: what was kept from the kernel in their place is gone"
            ),
            Err(refused) => warn!(
                error = refused.error,
                "what was kept from the kernel could not be taken away"
            ),
        }
    }
}
