//! Invariants that are checked in every run.

use core::fmt;
use std::collections::BTreeMap;

/// A promise that the simulator checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// The shares of a period are at most the limit if all nodes see the same members, otherwise at
    /// most the limit times the sum of 1 / members.
    SharesWithinBound,
    /// Without a fault, the usage of the current windows of all nodes is at most the limit.
    WindowsWithinLimit,
    /// Always at most the limit times 2 - 1 / n.
    WindowsWithinBound,
    /// With a partition and no other fault they are at most the limit times 1 + p / n, for p nodes
    /// of n behind it.
    PartitionWithinBound,
    /// The packets admitted in a period are at most that, too.
    AdmittedWithinBound,
    /// After the faults, if demand is far above the limit, at least 95 % of it is admitted.
    LimitIsUsed,
    /// When all is well again, all nodes have the same members.
    MembersAgree,
    /// When all is well again, each node says the same is in force as one that got every statement.
    ListsAgree,
    /// A statement that was not lifted is in force on its node until its end.
    NothingOpens,
    /// No message has an effect twice.
    NoReplay,
    /// An honest node is not accused.
    NobodyAccused,
}

/// A violated invariant.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// The violated invariant.
    pub invariant: Invariant,
    /// The violation in words.
    pub what: String,
    /// The events before the violation.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace
            .iter()
            .try_for_each(|line| writeln!(formatter, "{line}"))?;
        write!(
            formatter,
            "seed {}: {:?}: {}",
            self.seed, self.invariant, self.what
        )
    }
}

/// The share of one node of a key in a period, with the view and number of members by which it was
/// divided.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// The most that the share was.
    pub share: u64,
    /// The admitted amount.
    pub admitted: u64,
    /// The view.
    pub view: Option<u64>,
    /// The number of members.
    pub size: u64,
}

/// The most that nodes may use together of a limit. Nodes of a view leave to those who are not
/// heard what these may always claim; a node without a view has what it may always claim.
pub fn bound<'a>(limit: u64, nodes: impl Iterator<Item = &'a Used>) -> u64 {
    let mut views: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut sum = 0;
    for used in nodes {
        match used.view {
            Some(view) => *views.entry((view, used.size)).or_default() += 1,
            None => sum += limit / used.size,
        }
    }
    let of_views = views
        .iter()
        .map(|((_, size), nodes)| limit - size.saturating_sub(*nodes) * (limit / size));
    sum + of_views.sum::<u64>()
}
