//! The state of the challenge.

use std::cell::Cell;

use ratelimit_common::{
    Instant,
    challenge::{Key, Period, Rules, Shared},
    node::Share,
};

use super::family::MemoryWord;

/// The rules and their shared state.
#[derive(Debug, Default)]
pub struct MemoryChallenge {
    pub(super) rules: Rules,
    pub(super) key: Key,
    words: [Cell<u64>; 3],
    shares: [Cell<Share>; 3],
    pub(super) on: [Cell<Period>; 2],
}

impl MemoryChallenge {
    pub(super) fn new(rules: &Rules, key: Key) -> Self {
        Self {
            rules: *rules,
            key,
            ..Self::default()
        }
    }

    pub(super) fn takes(&self, which: Shared, now: Instant, keeps_shares: bool) -> bool {
        let budget = &self.rules.shared()[which as usize];
        let word = MemoryWord(&self.words[which as usize]);
        if !keeps_shares {
            return budget.take_one(&word, now);
        }
        let share = &self.shares[which as usize];
        let next = budget.take(&word, share.get(), now);
        next.map(|next| share.set(next)).is_some()
    }
}
