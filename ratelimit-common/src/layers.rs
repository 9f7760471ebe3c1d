//! The limits of a source, of the wider prefixes around it, of its destination, and of the node:
//! all must have room, then all are charged.
//!
//! A packet meets them from the narrowest to the widest. Further limits, if the source's policy has
//! a further policy, come right after those of the source; they can only refuse more, and do not
//! affect the usage of the source. A packet that a dry run would refuse is charged to no limit of
//! that policy, as if it were enforced, so that a dry run counts exactly the packets that would be
//! dropped. It is still charged to the surrounding limits, because it passes; if one of those
//! refuses it, that is its verdict.

use crate::{
    Address, Arrival, DropReason, Instant, Policy, Tables,
    aggregate::LEVELS_MAX,
    charge::Outcome,
    lease::{self, Demanded},
    node::{NOT_DRAWN, PooledLimits},
    source_limits,
    tables::FamilyTables,
};

/// The index of no policy.
pub const NO_DESTINATION: u32 = u32::MAX;

/// Behind the source, at 0, come its further limits.
const FURTHER: usize = 1;
/// The index of the first surrounding prefix; the others follow.
const AROUND: usize = 2;
const LAYERS: usize = AROUND + LEVELS_MAX;
/// The index of the node, behind them.
const NODE: usize = LAYERS;

/// The layers of a destination: each source's limits to it, and its total limits.
const TO_DESTINATION: usize = 0;
const DESTINATION: usize = 1;

/// Charges a packet of `source` that only the limits of its policy apply to, if it has one. If the
/// nodes of a cluster share them, a source that was never refused is handled like all others.
#[inline(always)]
fn charge_source<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    if !tables.settings().has_cluster() {
        return tables.charge_source(source, policy, arrival);
    }
    let Some(own) = policy.filter(|policy| policy.is_of_cluster()) else {
        return tables.charge_source(source, policy, arrival);
    };
    if tables.may_have_lease(source) {
        let outcome = tables.charge_leased(source, policy, arrival);
        let demanded = Demanded::of(outcome);
        tables.count_demand(source, own, arrival, demanded);
        return outcome;
    }
    let outcome = tables.charge_source(source, policy, arrival);
    if outcome.is_limited() {
        tables.count_demand(source, own, arrival, Demanded::Refused);
    }
    outcome
}

/// Charges a packet of a source that may have a lease to the policy in force.
#[inline(always)]
pub fn charge_leased<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let Some(own) = policy else {
        return Outcome::UNCOUNTED;
    };
    let leased = tables.policy(tables.leased(source, own, arrival.at));
    let in_force = own.or_leased(leased);
    source_limits::charge_within_budget(&mut { *source }, Some(in_force), arrival, tables)
}

/// Charges a packet of `source` to its policy, if it has one, and to all wider limits, or returns
/// the limit that refuses it. `destination` is the policy index of its destination, if there is
/// one.
///
/// The CPU's drawn shares of the limits of the node and of the destination are spent before the
/// source is charged, and given back if the source is refused.
#[inline(always)]
pub fn charge<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    destination: u32,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let is_alone = !arrival.settings.has_layers() && destination == NO_DESTINATION;
    let spent = if is_alone {
        Outcome::UNCOUNTED
    } else if may_spend(policy, arrival) {
        tables.spend(destination, arrival)
    } else {
        NOT_DRAWN
    };
    if spent == NOT_DRAWN {
        return charge_layers(source, policy, destination, arrival, tables);
    }
    let outcome = charge_source(source, policy, arrival, tables);
    if outcome.is_enforced() && spent.is_counted() {
        tables.give_back(destination, arrival);
    }
    outcome.more_specific(spent)
}

/// Whether the only wider limits for a packet are those of the node and of its destination. `own`
/// is the policy of its source. With further or cluster-wide limits, more has to be checked and
/// counted before it is charged.
#[inline(always)]
fn may_spend(own: Option<&Policy>, arrival: &Arrival) -> bool {
    let is_more = |own: &Policy| own.has_further() || own.is_of_cluster();
    !arrival.settings.has_aggregates() && !own.is_some_and(is_more)
}

/// The policies of the node, and of a destination.
#[inline(always)]
pub fn shared_policies(destination: u32, tables: &impl Tables) -> [Option<&Policy>; 2] {
    [node_policy(tables), tables.policy(destination)]
}

#[inline(always)]
fn node_policy(tables: &impl Tables) -> Option<&Policy> {
    let index = tables.settings().node_policy();
    index.and_then(|index| tables.policy(index))
}

/// Charges a packet like [`charge`] if nothing was spent: all limits are checked before any is
/// charged.
#[inline(always)]
fn charge_layers<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    destination: u32,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let has_further = policy.is_some_and(Policy::has_further);
    let is_none = |layer| layer == FURTHER && !has_further;
    let destination = tables.policy(destination);
    let mut walk = Walk::new();
    let at = arrival.at;
    // The policy of the node is looked up each time: a pointer that is kept takes a word of the
    // stack, which is full.
    let _ = (0..LAYERS).all(|layer| {
        is_none(layer)
            || walk.check(layer, tables.check_layer(layer, source, policy, arrival))
                && walk.forget(at, tables)
    }) && walk.check(NODE, tables.node().check(node_policy(tables), arrival))
        && walk.forget(at, tables)
        && (destination.is_none()
            || walk.go(tables.charge_destination(source, destination, arrival))
                && walk.forget(at, tables))
        && (0..LAYERS).all(|layer| {
            is_none(layer)
                || walk.is_full(layer)
                || walk.go(tables.charge_layer(layer, source, policy, arrival))
                    && walk.forget(at, tables)
        })
        && (walk.is_full(NODE) || walk.go(tables.node().charge(node_policy(tables), arrival)));
    walk.outcome
}

/// Asks a layer whether it has room: the source, whose policy is `policy`, its further limits, or a
/// prefix around it.
#[inline(always)]
pub fn check_layer<A: Address>(
    layer: usize,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let (layer, address) = Layer::new(layer, source, policy, tables);
    let policy = lease::in_force(&address, layer.policy, arrival, false, tables);
    let outcome = tables.check(&address, policy, arrival);
    if let Some(policy) = policy
        && policy.is_of_cluster()
        && outcome.is_refused()
    {
        tables.count_demand(&address, policy, arrival, Demanded::Refused);
    }
    let outcome = layer.reported(outcome);
    let counted = (DropReason::AggregateLimited, Some(&address));
    count_refusal(outcome, counted, layer.policy, arrival, tables);
    outcome
}

/// Charges a layer.
#[inline(always)]
pub fn charge_layer<A: Address>(
    layer: usize,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let (layer, mut address) = Layer::new(layer, source, policy, tables);
    let policy = lease::in_force(&address, layer.policy, arrival, true, tables);
    let outcome = source_limits::charge_within_budget(&mut address, policy, arrival, tables);
    layer.reported(outcome)
}

/// Charges a packet of `source` to the limits of its destination, whose policy is `policy`, if all
/// of them have room: each source's limits to it, and its total limits. Called when all other
/// limits had room, and before these are charged.
#[inline(always)]
pub fn charge_destination<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let of_source = policy.and_then(Policy::further);
    let of_source = of_source.and_then(|index| tables.policy(index));
    let reported = |outcome: Outcome| outcome.by(DropReason::SourceToDestinationLimited);
    let mut walk = Walk::new();
    let _ = (of_source.is_none()
        || walk.check(
            TO_DESTINATION,
            reported(tables.check(source, of_source, arrival)),
        ))
        && walk.check(DESTINATION, tables.node().check(policy, arrival))
        && (of_source.is_none()
            || walk.is_full(TO_DESTINATION)
            || walk.go(reported(source_limits::charge_within_budget(
                &mut { *source },
                of_source,
                arrival,
                tables,
            ))))
        && (walk.is_full(DESTINATION) || walk.go(tables.node().charge(policy, arrival)));
    let to_destination = (DropReason::SourceToDestinationLimited, Some(source));
    count_refusal(walk.outcome, to_destination, of_source, arrival, tables);
    let destination = (DropReason::DestinationLimited, None);
    count_refusal(walk.outcome, destination, policy, arrival, tables);
    walk.outcome
}

/// Counts a packet that limits of `policy` refused for a reason, under the address that shares
/// them, if it is one.
#[inline(always)]
fn count_refusal<A: Address>(
    outcome: Outcome,
    (reason, address): (DropReason, Option<&A>),
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) {
    if outcome.is_for(reason)
        && let Some(policy) = policy
    {
        tables.count_shared_refusal(address, policy, arrival.at);
    }
}

/// The way of a packet through its limits.
struct Walk {
    /// The refusal to report: the first of a limit in force, otherwise the first of a dry run.
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

    /// Records whether a layer has room, and returns whether to continue.
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

    /// Records the outcome of the next limits, and returns whether to continue.
    #[inline(always)]
    const fn go(&mut self, outcome: Outcome) -> bool {
        if outcome.is_enforced() {
            self.outcome = outcome;
        } else if !self.outcome.is_refused() {
            self.outcome = self.outcome.more_specific(outcome);
        }
        !outcome.is_enforced()
    }

    /// Continues, and makes the verifier forget the results so far. Otherwise it follows every
    /// combination to the end.
    #[inline(always)]
    fn forget(&mut self, at: Instant, tables: &impl Tables) -> bool {
        let outcome = self.outcome.to_bits();
        self.outcome = Outcome::from_bits(tables.without_bounds(outcome, at));
        self.full = tables.without_bounds(self.full, at);
        true
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are five layers")]
const fn bit(layer: usize) -> u32 {
    1u32.wrapping_shl(layer as u32)
}

/// No policy has this many limits. A separate flag would take another word of the stack, which is
/// full.
const OF_PREFIX: usize = usize::MAX;

/// The limits of a source, its further ones, or those of a prefix around it.
struct Layer<'a> {
    policy: Option<&'a Policy>,
    /// Further limits are reported as those that come after the source's own: how many these are.
    /// [`OF_PREFIX`] for the limits of a prefix.
    limits_before: usize,
}

impl<'a> Layer<'a> {
    /// Returns the limits of a layer, and the address that they are for. The address is passed on
    /// by reference, so in one structure it would keep the limits on the stack too.
    #[inline(always)]
    fn new<A: Address, T: FamilyTables<A>>(
        layer: usize,
        source: &A,
        policy: Option<&'a Policy>,
        tables: &'a T,
    ) -> (Self, A) {
        let Some(level) = layer.checked_sub(AROUND) else {
            let further = policy.filter(|_| layer == FURTHER);
            let own = policy.filter(|_| layer != FURTHER);
            let beside = further.and_then(Policy::further);
            let limits = Self {
                policy: beside.and_then(|index| tables.policy(index)).or(own),
                limits_before: further.map_or(0, Policy::len),
            };
            return (limits, *source);
        };
        let aggregate = if tables.settings().has_aggregates() {
            FamilyTables::<A>::aggregates(tables).get(level)
        } else {
            None
        };
        let limits = Self {
            policy: aggregate.and_then(|aggregate| tables.policy(aggregate.policy.into())),
            limits_before: OF_PREFIX,
        };
        (
            limits,
            source.prefix(aggregate.map_or(0, |aggregate| aggregate.prefix)),
        )
    }

    /// Adds the name and the number of the limit to an outcome.
    #[inline(always)]
    fn reported(&self, outcome: Outcome) -> Outcome {
        if self.limits_before == OF_PREFIX {
            outcome.by(DropReason::AggregateLimited)
        } else {
            outcome.behind(self.limits_before)
        }
    }
}
