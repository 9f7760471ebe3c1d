//! The state of the node's limits, for a machine with one CPU.

use std::{cell::Cell, rc::Rc};

use ratelimit_common::{
    Record,
    charge::Words,
    layout::NODE_POLICIES,
    limit::LIMITS_MAX,
    node::{Node, Share, Shares},
};

use super::family::{MemoryRing, exchange};

type Cells = [Cell<u64>; LIMITS_MAX];

/// The words of the node's limits, and the shares of its CPU.
#[derive(Clone, Debug, Default)]
pub struct MemoryNode {
    words: [Rc<Cells>; NODE_POLICIES as usize],
    shares: Cell<Shares>,
    keeps_no_shares: bool,
}

impl MemoryNode {
    /// The same on a machine where packets on one CPU interrupt each other.
    pub(super) const fn keep_no_shares(&mut self) {
        self.keeps_no_shares = true;
    }

    /// The state of the limits under each scope, modulo their number.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let record = |words: &Rc<Cells>| Record::new(words.each_ref().map(Cell::get));
        self.words.iter().map(record).collect()
    }

    /// What was drawn, and not spent.
    #[must_use]
    pub const fn shares(&self) -> Shares {
        self.shares.get()
    }
}

impl Node for &MemoryNode {
    type Words = NodeWords;

    fn words(&self, scope: u32) -> Option<NodeWords> {
        let words = self.words.get((scope % NODE_POLICIES) as usize)?;
        Some(NodeWords(Rc::clone(words)))
    }

    fn keeps_shares(&self) -> bool {
        !self.keeps_no_shares
    }

    fn share(&self, index: usize) -> Share {
        self.shares.get()[index]
    }

    fn set_share(&self, index: usize, share: Share) {
        if self.keeps_no_shares {
            return;
        }
        let mut shares = self.shares.get();
        shares[index] = share;
        self.shares.set(shares);
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
