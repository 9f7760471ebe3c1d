//! The limits of a source, of the wider prefixes around it, and of the node: all must have room, then all are charged.
//!
//! A packet meets them from the narrowest to the widest. One that a dry run would refuse is charged to the limits around it
//! all the same, as it passes; if one of those refuses it, that is its verdict.

use crate::{
    Address, Arrival, DropReason, Policy, Tables, aggregate::LEVELS_MAX, charge::Outcome,
    node::Node, tables::FamilyTables,
};

/// All limits are asked whether they have room, then all are charged.
pub const STEPS: usize = 2 * LAYERS;
/// The source, the prefixes around it, the node.
const LAYERS: usize = LEVELS_MAX + 2;
const NODE: usize = LAYERS - 1;

/// Charges a packet of `source` to its policy, if it has one, and to all wider limits, or says which limit refuses it.
#[inline(always)]
pub fn charge<A, T>(source: &A, policy: Option<&Policy>, arrival: &Arrival, tables: &T) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let mut walk = Walk::new();
    for step in 0..STEPS {
        if !walk.go(tables.step(step, source, policy, arrival)) {
            break;
        }
    }
    walk.outcome
}

/// Asks one layer whether it has room, or charges it.
#[inline(always)]
pub fn step<A, T>(
    step: usize,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &T,
) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let is_charge = step >= LAYERS;
    let layer = if is_charge {
        step.wrapping_sub(LAYERS)
    } else {
        step
    };
    if layer >= NODE {
        let (node, policy) = (tables.node(), node_policy(tables));
        return if is_charge {
            node.charge(policy, arrival)
        } else {
            node.check(policy, arrival)
        };
    }
    let layer = Layer::new(layer, source, policy, tables);
    let outcome = if is_charge {
        tables.charge(&layer.address, layer.policy, arrival)
    } else {
        tables.check(&layer.address, layer.policy, arrival)
    };
    outcome.by(layer.reason)
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

    /// Notes what the next limits say, and answers whether to go on.
    #[inline(always)]
    const fn go(&mut self, outcome: Outcome) -> bool {
        if outcome.is_enforced() || (outcome.is_counted() && !self.outcome.is_refused()) {
            self.outcome = outcome;
        }
        !outcome.is_enforced()
    }
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

#[inline(always)]
fn node_policy<T: Tables>(tables: &T) -> Option<&Policy> {
    tables.policy(tables.settings().node_policy()?)
}
