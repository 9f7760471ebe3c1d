//! Keeps the bans and allows that the kernel has and a damaged or deleted database has lost.
//!
//! Imported lists are restored from their [copies](crate::control::lists::copies). Bans and allows
//! that will be reported again ([`renewed`]) become lists of their own, until everything that
//! reports them has done so.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_common::{Instant, ListEntry};
use ratelimit_core::{
    intent::{
        Edit, Intent,
        list::{self, List},
        renewed,
    },
    lists::{Action, ReasonId, Reasons},
    origin::Origin,
    prefix::Prefix,
};
use tracing::warn;

use super::compiled::Compiled;
use crate::{
    clock,
    control::{
        enforcement::{enforcer::Enforcer, entry_counters::EntryCounters},
        lists::KEPT,
        reports::rows,
    },
};

/// The author of adopted rows.
const AUTHOR: &str = "ratelimitd";
/// The reason of adopted rows.
const REASON: &str = "recovered from the kernel: missing in the database";

/// Ends that differ by less are equal: a copy has them in milliseconds, and by another clock.
const SAME_END_NANOS: u64 = 1_000_000_000;

/// Bans or allows that will be reported again, wider prefixes first.
#[derive(Default)]
struct Renewed {
    entries: Vec<list::ListEntry>,
    /// The prefixes around the last one, with their ends.
    around: Vec<(Prefix, Instant)>,
}

#[derive(Default)]
struct AllRenewed {
    bans: Renewed,
    allows: Renewed,
}

impl Renewed {
    /// Adds one, unless one around it has the same end.
    fn add(&mut self, prefix: Prefix, until: Instant) {
        let is_beside = |(outer, _): &mut (Prefix, Instant)| !outer.covers(prefix);
        while self.around.pop_if(is_beside).is_some() {}
        if self.around.iter().any(|(_, outer)| *outer >= until) {
            return;
        }
        self.around.push((prefix, until));
        self.entries.push(list::ListEntry {
            prefix,
            until: renewed::intended(until),
            reason: ReasonId::NONE,
        });
    }
}

/// The intent, and the state of the kernel.
pub(crate) struct Adoption<'a> {
    pub intent: &'a mut Intent,
    pub compiled: &'a mut Compiled,
    pub enforcer: &'a mut Enforcer,
    pub entry_counters: &'a mut EntryCounters,
}

impl Adoption<'_> {
    /// Adds to the intent what the kernel has and the intent does not explain, if the database
    /// cannot be trusted, and returns the edits.
    ///
    /// After a reboot the kernel is empty, and only the configuration and the copies of lists are
    /// known.
    pub(crate) fn adopt(&mut self, copies: Vec<(Arc<str>, List)>) -> Vec<Edit> {
        let held: Vec<(Prefix, ListEntry)> = self.enforcer.entries().collect();
        let mut kept = self.copied_lists(copies, !held.is_empty());
        self.make_intended(&kept);
        let mut again = AllRenewed::default();
        for (prefix, entry) in held {
            let unexplained = self.unexplained(prefix, entry, &mut again);
            self.make_intended(&unexplained);
            kept.extend(unexplained);
        }
        for ((name, action), renewed) in KEPT.into_iter().zip([again.bans, again.allows]) {
            kept.extend(self.add_renewed(name, action, renewed.entries));
        }
        let entries: usize = kept.iter().map(|edit| edit.prefixes().count()).sum();
        if !kept.is_empty() {
            warn!(
                kept = entries,
                "keeping the bans and allows of the kernel: the database is incomplete"
            );
        }
        kept
    }

    /// Returns the lists that are missing in the database and have a copy. If the kernel has
    /// entries, only the entries that are there.
    fn copied_lists(&self, copies: Vec<(Arc<str>, List)>, is_anything_held: bool) -> Vec<Edit> {
        let copies = copies.into_iter();
        let is_lost = |name: &str| {
            !self.intent.lists().contains_key(name) && !self.intent.config.lists.contains_key(name)
        };
        let lost = copies.filter(|(name, _)| is_lost(name));
        let edits = lost.map(|(name, list)| {
            let entries = list.entries().iter().copied().filter_map(|mut entry| {
                if !is_anything_held {
                    return Some(entry);
                }
                let held = self.enforcer.entry(entry.prefix)?;
                let until = match list.action {
                    Action::Ban => held.banned_until(),
                    Action::Allow => held.allowed_until(),
                    Action::Policy => None,
                }?;
                let after = until.as_nanos().saturating_sub(entry.until.as_nanos());
                if until.as_nanos().abs_diff(entry.until.as_nanos()) <= SAME_END_NANOS {
                    entry.until = until;
                } else if after == 0 {
                    return None;
                }
                Some(entry)
            });
            let (entries, reasons) = (entries.collect(), list.reasons.clone());
            let list = list.with_entries(entries, reasons);
            let touched = list.entries().iter().map(|entry| entry.prefix).collect();
            Edit::List(name, Some(list.into()), touched)
        });
        edits.collect()
    }

    /// Returns the edits that explain what the kernel has for a prefix. Wider prefixes must come
    /// first.
    fn unexplained(&self, prefix: Prefix, held: ListEntry, again: &mut AllRenewed) -> Vec<Edit> {
        let intended = self.compiled.rules.sum(prefix);
        let mut edits = Vec::new();
        let until = held.allowed_until().filter(|until| *until > clock::now());
        let until = until.filter(|until| Some(*until) > intended.allowed_until());
        if let Some(until) = until.filter(|until| renewed::is_allow_renewed(*until)) {
            again.allows.add(prefix, until);
        } else if let Some(until) = until {
            let allow = rows::entry(until, Some(REASON), AUTHOR);
            edits.push(Edit::Allow(prefix, Some(allow)));
        }
        let until = held.banned_until().filter(|until| *until > clock::now());
        let until = until.filter(|until| Some(*until) > intended.banned_until());
        if let Some(until) = until.filter(|until| renewed::is_ban_renewed(*until)) {
            again.bans.add(prefix, until);
        } else if let Some(until) = until {
            let ban = rows::entry(until, Some(REASON), AUTHOR);
            edits.push(Edit::Ban(prefix, Origin::Manual, Some(ban)));
        }
        edits
    }

    /// Adds bans or allows that will be reported again as a list.
    fn add_renewed(
        &mut self,
        name: &str,
        action: Action,
        entries: Vec<list::ListEntry>,
    ) -> Option<Edit> {
        if entries.is_empty() {
            return None;
        }
        let name: Arc<str> = name.into();
        let mut entries: BTreeMap<Prefix, list::ListEntry> =
            entries.into_iter().map(|it| (it.prefix, it)).collect();
        let mut reasons = Reasons::default();
        let reason = reasons.add(REASON);
        for entry in entries.values_mut() {
            entry.reason = reason;
        }
        // Marked like a list of a file, so that the kernel distinguishes them again.
        let file = Some((&*name).into());
        let list = List::new(action, file, clock::wall(), AUTHOR.into());
        let list = list.with_entries(entries.into_values().collect(), reasons);
        let (_, edit) = self.intent.list_edit(&name, Some(list));
        self.make_intended(edit.as_slice());
        edit
    }

    fn make_intended(&mut self, edits: &[Edit]) {
        for edit in edits {
            self.intent.edit(edit.clone());
            let datapath = self.enforcer.datapath_mut();
            let edits = std::slice::from_ref(edit);
            self.entry_counters
                .count_added(edits, self.intent, datapath);
            let slots = self.entry_counters.slots();
            for prefix in edit.prefixes() {
                self.compiled.compile_prefix(self.intent, slots, prefix);
            }
        }
    }
}
