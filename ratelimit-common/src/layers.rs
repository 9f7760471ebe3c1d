//! The limits of a source, of the wider prefixes around it, and of the node: all must have room, then all are charged.
//!
//! A packet meets them from the narrowest to the widest. One that a dry run would refuse is charged to the limits around it
//! all the same, as it passes; if one of those refuses it, that is its verdict.

use crate::{
    Address, Arrival, DropReason, Policy, Tables, charge::Outcome, node::Node, tables::FamilyTables,
};

/// Charges a packet of `source` to its policy, if it has one, and to all wider limits, or says which limit refuses it.
#[inline(always)]
pub fn charge<A, T>(source: &A, policy: Option<&Policy>, arrival: &Arrival, tables: &T) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let narrow = aggregate(source, 0, tables);
    let wide = aggregate(source, 1, tables);
    let node = node_policy(tables);

    let mut walk = Walk::new();
    let _ = walk.go(|| tables.check(source, policy, arrival))
        && walk.go(|| narrow.check(arrival, tables))
        && walk.go(|| wide.check(arrival, tables))
        && walk.go(|| tables.node().check(node, arrival))
        && walk.go(|| tables.charge(source, policy, arrival))
        && walk.go(|| narrow.charge(arrival, tables))
        && walk.go(|| wide.charge(arrival, tables))
        && walk.go(|| tables.node().charge(node, arrival));
    walk.outcome
}

/// The way of a packet through its limits.
struct Walk {
    /// The refusal that counts: the first by limits in force, else the first by a dry run.
    outcome: Outcome,
}

impl Walk {
    #[inline(always)]
    const fn new() -> Self {
        Self {
            outcome: Outcome::UNCOUNTED,
        }
    }

    /// Asks the next limits, and whether to go on.
    #[inline(always)]
    fn go(&mut self, limits: impl FnOnce() -> Outcome) -> bool {
        let outcome = limits();
        if outcome.is_enforced() || (outcome.is_counted() && !self.outcome.is_refused()) {
            self.outcome = outcome;
        }
        !outcome.is_enforced()
    }
}

/// The limits of a prefix around a source.
struct Prefix<'a, A: Address> {
    policy: Option<&'a Policy>,
    address: A,
}

impl<A: Address> Prefix<'_, A> {
    #[inline(always)]
    fn check(&self, arrival: &Arrival, tables: &impl FamilyTables<A>) -> Outcome {
        tables
            .check(&self.address, self.policy, arrival)
            .by(DropReason::AggregateLimited)
    }

    #[inline(always)]
    fn charge(&self, arrival: &Arrival, tables: &impl FamilyTables<A>) -> Outcome {
        tables
            .charge(&self.address, self.policy, arrival)
            .by(DropReason::AggregateLimited)
    }
}

/// The limits of the prefix around `source` at `index`.
#[inline(always)]
fn aggregate<'a, A, T>(source: &A, index: usize, tables: &'a T) -> Prefix<'a, A>
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let aggregate = if tables.settings().has_aggregates() {
        FamilyTables::<A>::aggregates(tables).get(index)
    } else {
        None
    };
    let bits = aggregate.map_or(0, |aggregate| aggregate.prefix);
    Prefix {
        policy: aggregate.and_then(|aggregate| tables.policy(aggregate.policy.into())),
        address: source.prefix(bits),
    }
}

#[inline(always)]
fn node_policy<T: Tables>(tables: &T) -> Option<&Policy> {
    tables.policy(tables.settings().node_policy()?)
}
