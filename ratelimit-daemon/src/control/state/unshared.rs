//! Bans that the cluster is to be told of.

use std::collections::BTreeSet;

use ratelimit_core::{
    intent::{Edit, EntryRow, Intent},
    prefix::Prefix,
};

use crate::control::reports::cause::Cause;

/// Prefixes with changed bans; `None` where this host is no node.
#[derive(Default)]
pub struct Unshared(Option<BTreeSet<Prefix>>);

impl Unshared {
    /// From here on the prefixes of changed bans are noted, first those of all bans that other nodes are sent.
    pub fn begin(&mut self, intent: &Intent) {
        let bans = intent.bans().keys();
        let shared = bans.filter(|(_, origin)| origin.is_shared());
        self.0 = Some(shared.map(|(prefix, _)| *prefix).collect());
    }

    /// Notes of which prefixes the cluster is to be sent something else. What ends by itself ends so on all nodes.
    pub fn note(&mut self, edits: &[Edit], cause: Cause<'_>) {
        let Some(unshared) = self.0.as_mut().filter(|_| cause != Cause::Time) else {
            return;
        };
        let is_shared =
            |edit: &&Edit| matches!(edit, Edit::Ban(_, origin, _) if origin.is_shared());
        let shared = edits.iter().filter(is_shared);
        unshared.extend(shared.flat_map(Edit::prefixes));
    }

    /// What was noted since this was last asked.
    pub fn take(&mut self) -> BTreeSet<Prefix> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// The longest ban of a prefix that other nodes are sent.
pub fn shared_ban(intent: &Intent, prefix: Prefix) -> Option<&EntryRow> {
    let bans = intent.bans_of(prefix);
    let shared = bans.filter(|(origin, _)| origin.is_shared());
    shared.map(|(_, row)| row).max_by_key(|row| row.until)
}
