//! The state of the challenge.

use std::cell::Cell;

use ratelimit_common::{
    Instant,
    challenge::{Asked, Key, On, Rules, Shared},
    node::Share,
};

use super::family::MemoryWord;

/// The rules, and what they share.
#[derive(Debug, Default)]
pub struct MemoryChallenge {
    rules: Rules,
    key: Key,
    words: [Cell<u64>; 3],
    shares: [Cell<Share>; 3],
    on: [Cell<On>; 2],
}

impl MemoryChallenge {
    pub(super) fn new(rules: &Rules, key: Key) -> Self {
        Self {
            rules: *rules,
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

    pub(super) const fn on(&self, asked: Asked) -> &Cell<On> {
        &self.on[asked as usize]
    }
}
