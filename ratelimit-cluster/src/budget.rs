//! Budgets: how nodes divide a limit without a coordinator, and never exceed it.
//!
//! In each period `t`, every node counts what it admitted and refused of its busy keys. At the end
//! of the period it sends a report that never changes: for each busy key its demand, and its claim
//! of at most limit / nodes. In period `t + 2` it may use its claim in any case. The rest of the
//! limit is divided by the demands in the same reports ([`division`]).
//!
//! Two nodes may have received different reports. No agreement is needed, because a division is
//! monotone: a node's part never grows when another node claims or demands more. A missing report
//! is replaced by the worst case (a claim of limit / nodes and a demand of the whole limit). So a
//! node that knows less takes less, and the sum of all parts is at most that with full knowledge,
//! which is the limit. The same holds if a lying peer sends different reports to different nodes.
//!
//! Nodes that disagree about the members divide by different numbers. Node `i`, with `n_i` members,
//! gets at most what the other nodes of its view leave, so all nodes together admit at most
//! `limit * sum(1 / n_i)` ([`members`]).
//!
//! After Raghavan et al., "Cloud control with distributed rate limiting" (SIGCOMM 2007), whose
//! limiters exchange their demands and divide by them, but without a bound while they disagree. The
//! fallback of limit / nodes is Doorman's "safe capacity".

pub mod division;
mod engine;
pub mod members;
mod reports;
#[cfg(test)]
mod tests;

pub use division::Division;
pub use engine::Budget;

use crate::{name::NodeName, time::Millis};

/// The highest limit that can be divided. Sums over [`crate::message::MEMBERS_MAX`] nodes then fit
/// into 64 bits.
pub const AMOUNT_MAX: u64 = 1 << 40;

/// An idle node keeps (limit / nodes) / `NEWCOMER` of a key that is busy elsewhere, for the first
/// packets that arrive here.
pub const NEWCOMER: u64 = 64;

/// A limit that nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The total of all nodes.
    pub amount: u64,
    /// The division of the limit among nodes.
    pub division: Division,
    /// The length of a window.
    pub window: Millis,
}

impl Limit {
    /// Returns the amount that each of `nodes` may always claim.
    pub fn equal(&self, nodes: u64) -> u64 {
        self.amount / nodes.max(1)
    }

    /// Returns the amount that an idle node keeps.
    pub fn newcomer(&self, nodes: u64) -> u64 {
        self.equal(nodes) / NEWCOMER
    }
}

/// Counts of a key in a period, in units of the limit's amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count<K> {
    /// The key.
    pub key: K,
    /// The admitted amount.
    pub admitted: u64,
    /// The refused amount.
    pub refused: u64,
    /// The amount that passed in this period. The others may cover up to a window instead.
    pub passed: u64,
}

/// The usage of a key's windows on a node, if no further packets arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowUsage {
    /// The usage of the window that will be running when the next period begins.
    pub then: u64,
    /// The usage of a window that ends before, if any.
    pub ending: u64,
}

/// The share of a node in a key. It includes its end, so that it stays valid if the daemon dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The amount during the lease.
    pub amount: u64,
    /// The end of the lease, by the monotonic clock.
    pub until: Millis,
    /// The amount after the lease: at most limit / nodes.
    pub then: u64,
}

impl Share {
    /// Returns the amount at a point in time.
    pub fn at(&self, monotonic: Millis) -> u64 {
        if monotonic < self.until {
            self.amount
        } else {
            self.then
        }
    }
}

/// The reason a node has only the guaranteed share of its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// It has not learned the time of the store.
    NoClock,
    /// It reported nothing two periods ago, because it has just started or its clock went back.
    Started,
    /// Other nodes did not report two periods ago with the same members and limits.
    Unheard {
        /// These members.
        members: Vec<NodeName>,
        /// The number of further members, which were never heard.
        more: u64,
    },
}

/// A node's report of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<K> {
    /// The number of the period.
    pub period: u64,
    /// A hash of the members, the limits and the length of a period.
    pub view: u64,
    /// Members whose report of the previous period is missing, as positions in the sorted members.
    pub unheard: Vec<u16>,
    /// The busy keys, sorted.
    pub entries: Vec<KeyReport<K>>,
}

/// A busy key of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport<K> {
    /// The key.
    pub key: K,
    /// The amount that the node may use two periods later in any case.
    pub claim: u64,
    /// The admitted and refused amount, or 0 if the node needs nothing beyond its share.
    pub demand: u64,
    /// An upper bound of its usage of the window at that time: its usage now, or the amount it may
    /// admit until then if that is larger.
    pub held: u64,
    /// The amount that passed.
    pub passed: u64,
}
