//! The state of the limits of node and destinations, for a machine with one CPU.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use ratelimit_common::{
    Policy, Record,
    charge::Words,
    limit::LIMITS_MAX,
    node::{PooledLimits, Share, Shares, share_place},
};

use super::family::{MemoryRing, exchange};

type Cells = [Cell<u64>; LIMITS_MAX];

/// The words of the node's limits, and the shares of its CPU.
#[derive(Clone, Debug, Default)]
pub struct MemoryNode {
    words: RefCell<BTreeMap<u32, Rc<Cells>>>,
    shares: RefCell<BTreeMap<u32, Shares>>,
    keeps_no_shares: bool,
}

impl MemoryNode {
    /// Behaves like a machine where packets on one CPU interrupt each other.
    pub(super) const fn keep_no_shares(&mut self) {
        self.keeps_no_shares = true;
    }

    /// The state of the limits in a slot.
    pub fn record(&self, slot: u32) -> Record {
        let words = self.words.borrow();
        let words = words
            .get(&slot)
            .map(|words| words.each_ref().map(Cell::get));
        Record::new(words.unwrap_or_default())
    }

    /// Returns the unspent shares of the limits at `place`.
    pub fn shares(&self, place: u32) -> Shares {
        self.shares
            .borrow()
            .get(&place)
            .copied()
            .unwrap_or_default()
    }
}

impl PooledLimits for &MemoryNode {
    type Words = NodeWords;

    fn words(&self, policy: &Policy) -> Option<NodeWords> {
        let mut words = self.words.borrow_mut();
        Some(NodeWords(Rc::clone(
            words.entry(policy.slot()).or_default(),
        )))
    }

    fn keeps_shares(&self) -> bool {
        !self.keeps_no_shares
    }

    fn share(&self, policy: &Policy, index: usize) -> Share {
        self.shares(share_place(policy))[index]
    }

    fn change_share(&self, policy: &Policy, index: usize, change: impl Fn(Share) -> Share) {
        if self.keeps_no_shares {
            return;
        }
        let mut shares = self.shares.borrow_mut();
        let share = &mut shares.entry(share_place(policy)).or_default()[index];
        *share = change(*share);
    }
}

/// The words of a policy of the node.
#[derive(Clone, Debug)]
pub struct NodeWords(Rc<Cells>);

impl Words for NodeWords {
    type Ring = MemoryRing;

    fn load(&self, index: usize) -> u64 {
        self.0[index].get()
    }

    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        exchange(&self.0[index], current, new)
    }
}
