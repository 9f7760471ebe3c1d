//! Budgets: how nodes divide a limit without a coordinator, and never above it.
//!
//! In each period `t` every node counts what it admitted and refused of its busy keys. When the period ends it sends a report
//! that is never changed: for each busy key its demand, and its claim, at most limit / nodes. In period `t + 2` it may use its claim
//! whatever happens. What the claims leave is divided by the demands in the same reports ([`division`]).
//!
//! Two nodes may have received different reports. That needs no agreement, because a division is monotone: a node's part never
//! grows when another node claims or demands more. A report that is missing is taken for the worst there could be (the claim
//! limit / nodes, the demand of the whole limit). So who knows less takes less, and the sum of all parts is at most what it is
//! where everybody knows everything, which is the limit. The same holds where a lying peer tells each node something else.
//!
//! Nodes that differ about who is a member divide by different numbers. Node `i`, with `n_i` members, gets at most what the others of its
//! view leave, so all of them together admit at most `limit * sum(1 / n_i)` ([`members`]).
//!
//! After Raghavan et al., "Cloud control with distributed rate limiting" (SIGCOMM 2007), whose limiters tell each other their demand
//! and divide by it, with no bound while they disagree. Limit / nodes without news is Doorman's "safe capacity".

pub mod division;
mod engine;
pub mod members;
mod reports;
#[cfg(test)]
mod tests;

pub use division::Division;
pub use engine::Budget;

use crate::{name::NodeName, time::Millis};

/// The highest limit that can be divided. Sums over [`crate::message::MEMBERS_MAX`] nodes fit into 64 bits then.
pub const AMOUNT_MAX: u64 = 1 << 40;

/// An idle node keeps this part of limit / nodes of a key that is busy elsewhere, for the first packets that come to it.
pub const NEWCOMER: u64 = 64;

/// A limit that the nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How much, on all nodes together.
    pub amount: u64,
    /// How it is divided.
    pub division: Division,
    /// How long a window is.
    pub window: Millis,
}

impl Limit {
    /// What a node may always claim, of so many.
    pub fn equal(&self, nodes: u64) -> u64 {
        self.amount / nodes.max(1)
    }

    /// What an idle node keeps, of so many.
    pub fn newcomer(&self, nodes: u64) -> u64 {
        self.equal(nodes) / NEWCOMER
    }
}

/// What a node counted of a key in a period, in units of the limit's amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count<K> {
    /// The key.
    pub key: K,
    /// What passed.
    pub admitted: u64,
    /// What was refused.
    pub refused: u64,
    /// What passed in this period. The others may be as much as a window has, in place of a period.
    pub passed: u64,
}

/// What is used of a key's windows on a node, if nothing more passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Of the window that will be running when the next period begins.
    pub then: u64,
    /// Of the window that ends before that, if one does.
    pub ending: u64,
}

/// What a node may admit of a key. It carries its end, so that it holds with the daemon dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How much, while the lease lasts.
    pub amount: u64,
    /// When the lease ends, by the monotonic clock.
    pub until: Millis,
    /// How much after that: never more than limit / nodes.
    pub then: u64,
}

impl Share {
    /// How much there is at a time.
    pub fn at(&self, monotonic: Millis) -> u64 {
        if monotonic < self.until {
            self.amount
        } else {
            self.then
        }
    }
}

/// Why a node has no more of its limits than it may always claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// It has not learned the time of the store.
    NoClock,
    /// It reported nothing two periods ago: it has just started, or its clock went back.
    Started,
    /// Others did not report two periods ago with the same members and limits.
    Unheard {
        /// These.
        members: Vec<NodeName>,
        /// So many more were never heard.
        more: u64,
    },
}

/// What a node reports of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<K> {
    /// Which period.
    pub period: u64,
    /// Who the members are, what the limits are and how long a period is, as a hash.
    pub view: u64,
    /// Whose reports of the period before are missing, as places in the sorted members.
    pub unheard: Vec<u16>,
    /// The busy keys, in order.
    pub entries: Vec<Entry<K>>,
}

/// A busy key of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<K> {
    /// The key.
    pub key: K,
    /// What the node may use two periods later whatever happens.
    pub claim: u64,
    /// What it admitted and refused; nothing where it needs no more.
    pub demand: u64,
    /// What it may have used then of the window that is running: the more of what it used, and of what it may admit until then.
    pub held: u64,
    /// What passed.
    pub passed: u64,
}
