//! Bans to announce to the cluster.

use std::collections::BTreeSet;

use ratelimit_core::{
    intent::{Edit, EntryRow, Intent},
    prefix::Prefix,
};

use crate::control::reports::cause::Cause;

/// Prefixes with changed bans. `None` if this host is in no cluster.
#[derive(Default)]
pub struct Unshared(Option<BTreeSet<Prefix>>);

impl Unshared {
    /// Starts to record changed bans. At first, all bans that are shared with other nodes count as
    /// changed.
    pub fn begin(&mut self, intent: &Intent) {
        let bans = intent.bans().keys();
        let shared = bans.filter(|(_, origin)| origin.is_shared());
        self.0 = Some(shared.map(|(prefix, _)| *prefix).collect());
    }

    /// Records changes to send to the cluster. Bans that expire do so on all nodes.
    pub fn note(&mut self, edits: &[Edit], cause: Cause<'_>) {
        let Some(unshared) = self.0.as_mut().filter(|_| cause != Cause::Time) else {
            return;
        };
        let is_shared =
            |edit: &&Edit| matches!(edit, Edit::Ban(_, origin, _) if origin.is_shared());
        let shared = edits.iter().filter(is_shared);
        unshared.extend(shared.flat_map(Edit::prefixes));
    }

    /// Returns the recorded prefixes, and starts again.
    pub fn take(&mut self) -> BTreeSet<Prefix> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Returns the longest shared ban of a prefix.
pub fn shared_ban(intent: &Intent, prefix: Prefix) -> Option<&EntryRow> {
    let bans = intent.bans_of(prefix);
    let shared = bans.filter(|(origin, _)| origin.is_shared());
    shared.map(|(_, row)| row).max_by_key(|row| row.until)
}
