//! The state of the challenge.

use std::cell::Cell;

use ratelimit_common::{
    Instant,
    challenge::{Key, Rules, Shared},
    node::Share,
};

use super::family::MemoryWord;

/// The rules, and what they share.
#[derive(Debug, Default)]
pub struct MemoryChallenge {
    rules: Rules,
    key: Key,
    words: [Cell<u64>; 2],
    shares: [Cell<Share>; 2],
    since: Cell<Instant>,
    until: Cell<Instant>,
}

impl MemoryChallenge {
    pub(super) fn new(rules: Rules, key: Key) -> Self {
        Self {
            rules,
            key,
            ..Self::default()
        }
    }

    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) const fn key(&self) -> Key {
        self.key
    }

    pub(super) fn takes(&self, which: Shared, now: Instant, keeps_shares: bool) -> bool {
        let budget = self.rules.shared(which);
        let word = MemoryWord(&self.words[which as usize]);
        if !keeps_shares {
            return budget.take_one(&word, now);
        }
        let share = &self.shares[which as usize];
        let next = budget.take(&word, share.get(), now);
        next.map(|next| share.set(next)).is_some()
    }

    pub(super) const fn since(&self) -> &Cell<Instant> {
        &self.since
    }

    pub(super) const fn until(&self) -> &Cell<Instant> {
        &self.until
    }
}
