//! The limits of a source, of the wider prefixes around it, and of the node: all must have room, then all are charged.
//!
//! A packet meets them from the narrowest to the widest. One that a dry run would refuse is charged to no limit of that policy,
//! as when it is enforced: so a dry run counts what would be dropped. To the limits around it is charged all the same, as it
//! passes; if one of those refuses it, that is its verdict.

use crate::{
    Address, Arrival, DropReason, Policy, Tables, aggregate::LEVELS_MAX, charge::Outcome,
    new_sources, node::Node, tables::FamilyTables,
};

/// The source, and the prefixes around it.
const LAYERS: usize = 1 + LEVELS_MAX;
/// Behind them the node.
const NODE: usize = LAYERS;

/// Charges a packet of `source` to its policy, if it has one, and to all wider limits, or says which limit refuses it.
#[inline(always)]
pub fn charge<A, T>(source: &A, policy: Option<&Policy>, arrival: &Arrival, tables: &T) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let node_policy = tables
        .settings()
        .node_policy()
        .and_then(|index| tables.policy(index));
    let mut walk = Walk::new();
    let _ = (0..LAYERS)
        .all(|layer| walk.check(layer, tables.check_layer(layer, source, policy, arrival)))
        && walk.check(NODE, tables.node().check(node_policy, arrival))
        && (0..LAYERS).all(|layer| {
            walk.is_full(layer) || walk.go(tables.charge_layer(layer, source, policy, arrival))
        })
        && (walk.is_full(NODE) || walk.go(tables.node().charge(node_policy, arrival)));
    walk.outcome
}

/// Asks a layer whether it has room: the source, whose policy is `policy`, or from 1 on a prefix around it.
#[inline(always)]
pub fn check_layer<A, T>(
    layer: usize,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &T,
) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let layer = Layer::new(layer, source, policy, tables);
    tables
        .check(&layer.address, layer.policy, arrival)
        .by(layer.reason)
}

/// Charges a layer.
#[inline(always)]
pub fn charge_layer<A, T>(
    layer: usize,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &T,
) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let layer = Layer::new(layer, source, policy, tables);
    new_sources::charge(layer.address, layer.policy, arrival, tables).by(layer.reason)
}

/// The way of a packet through its limits.
struct Walk {
    /// The refusal that counts: the first by limits in force, else the first by a dry run.
    outcome: Outcome,
    /// The layers whose dry run has no room, a bit each.
    full: u32,
}

impl Walk {
    #[inline(always)]
    const fn new() -> Self {
        Self {
            outcome: Outcome::UNCOUNTED,
            full: 0,
        }
    }

    /// Notes whether a layer has room, and answers whether to go on.
    #[inline(always)]
    const fn check(&mut self, layer: usize, outcome: Outcome) -> bool {
        if outcome.is_refused() {
            self.full |= bit(layer);
        }
        self.go(outcome)
    }

    /// Whether the packet is not to be charged to a layer.
    #[inline(always)]
    const fn is_full(&self, layer: usize) -> bool {
        self.full & bit(layer) != 0
    }

    /// Notes what the next limits say, and answers whether to go on.
    #[inline(always)]
    const fn go(&mut self, outcome: Outcome) -> bool {
        if outcome.is_enforced() {
            self.outcome = outcome;
        } else if !self.outcome.is_refused() {
            self.outcome = self.outcome.or_more(outcome);
        }
        !outcome.is_enforced()
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are four layers")]
const fn bit(layer: usize) -> u32 {
    1u32.wrapping_shl(layer as u32)
}

/// The limits of a source, or of a prefix around it.
struct Layer<'a, A: Address> {
    policy: Option<&'a Policy>,
    address: A,
    /// What a refusal by one of them is called.
    reason: DropReason,
}

impl<'a, A: Address> Layer<'a, A> {
    /// The source, or the prefix around it at `layer`, from 1 on.
    #[inline(always)]
    fn new<T: Tables + FamilyTables<A>>(
        layer: usize,
        source: &A,
        policy: Option<&'a Policy>,
        tables: &'a T,
    ) -> Self {
        let Some(level) = layer.checked_sub(1) else {
            return Self {
                policy,
                address: *source,
                reason: DropReason::Limited,
            };
        };
        let aggregate = if tables.settings().has_aggregates() {
            FamilyTables::<A>::aggregates(tables).get(level)
        } else {
            None
        };
        Self {
            policy: aggregate.and_then(|aggregate| tables.policy(aggregate.policy.into())),
            address: source.prefix(aggregate.map_or(0, |aggregate| aggregate.prefix)),
            reason: DropReason::AggregateLimited,
        }
    }
}
