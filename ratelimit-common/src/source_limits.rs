//! The limits of a source, or of a prefix around it: cached denial, known state, budget for new
//! sources, limits, dry run.
//!
//! The order is the same for each [`Store`]. A refused packet is charged to no limit.

use crate::{
    Address, Arrival, DropReason, Limit, Policy, bits,
    charge::{self, outcome::Outcome, words::Words},
    new_sources::Newcomer,
    settings::OverBudget,
    store::{InsertError, Store},
    tables::FamilyTables,
};

/// Charges a packet of `source` that meets no wider limits. A source that is known to be refused,
/// or has state, takes a short way: where the policy is one fixed window, without a call, else with
/// one.
#[inline(always)]
pub fn charge_source<A: Address, S: Store<A>>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    store: &S,
    placed: &impl FamilyTables<A>,
) -> Outcome {
    let Some(counting) = policy.filter(|policy| policy.counts(arrival)) else {
        return bits::rare(Outcome::UNCOUNTED);
    };
    let known = if let Some(limit) = counting.only_fixed_window() {
        charge_known_window(source, limit, counting, arrival, store)
    } else if counting.has_log() {
        None
    } else {
        charge_known_words(source, counting, arrival, store)
    };
    let observe = counting.observe();
    match known {
        Some(Outcome::PASSED) => return Outcome::PASSED,
        Some(Outcome::DENIED) if !observe => return Outcome::DENIED,
        Some(outcome) => return outcome.observed_if(observe),
        None => {}
    }
    if !arrival.settings.has_new_sources() {
        return placed.charge(source, policy, arrival);
    }
    // A flood ends here, without a second lookup of its sources.
    if !counting.has_log()
        && store.is_budget_spent(arrival)
        && let Some(outcome) = over_budget(Outcome::OVER_BUDGET.observed_if(observe), arrival)
    {
        return outcome;
    }
    placed.charge_within_budget(source, policy, arrival)
}

/// The outcome of a packet over budget. `None` if it is charged to an overflow bucket.
#[inline(always)]
fn over_budget(outcome: Outcome, arrival: &Arrival) -> Option<Outcome> {
    match arrival.settings.over_budget() {
        OverBudget::Pass => Some(Outcome::OVER_BUDGET_PASSED),
        OverBudget::Drop => Some(outcome),
        OverBudget::Aggregate => None,
    }
}

/// Charges a source that has state, or that a cached denial refuses, to the only limit of a policy,
/// a fixed window.
#[inline(always)]
fn charge_known_window<A: Address, S: Store<A>>(
    source: &A,
    limit: &Limit,
    policy: &Policy,
    arrival: &Arrival,
    store: &S,
) -> Option<Outcome> {
    let refuses = |denial: S::Denial<'_>| {
        let cost = limit.cost_of_counted(arrival);
        let step = limit.fixed_window().step(denial.load(0), arrival.at, cost);
        step.is_err()
    };
    if may_be_denied(policy, arrival)
        && store.is_denied(source, policy.scope(), arrival.at, refuses)
    {
        return Some(Outcome::DENIED);
    }
    let key = store.key(source, policy.scope());
    let words = store.words(&key)?;
    if arrival.settings.has_new_sources() && !words.has_own(0, limit) {
        return None;
    }
    let outcome = words.charge_fixed_window(limit, arrival);
    // The usual one, known by a single comparison.
    if outcome == Outcome::PASSED {
        return Some(outcome);
    }
    if outcome.is_limited() {
        store.keep_denial(&key, &words, arrival.at);
    }
    Some(outcome)
}

/// Whether a cached denial may refuse a packet, which is then counted at once. A packet of an
/// established connection may still pass.
#[inline(always)]
fn may_be_denied(policy: &Policy, arrival: &Arrival) -> bool {
    !arrival.settings.has_established() || policy.established().is_none()
}

/// Charges a policy without logs.
#[inline(always)]
fn charge_known_words<A: Address, S: Store<A>>(
    source: &A,
    policy: &Policy,
    arrival: &Arrival,
    store: &S,
) -> Option<Outcome> {
    if let Some(limit) = policy.only_limit()
        && may_be_denied(policy, arrival)
    {
        let refuses = |denial: S::Denial<'_>| {
            let cost = limit.cost_of_counted(arrival);
            denial.load(0) != 0 && denial.check(limit, 0, arrival.at, cost).is_limited()
        };
        if store.is_denied(source, policy.scope(), arrival.at, refuses) {
            return Some(Outcome::DENIED);
        }
    }
    let key = store.key(source, policy.scope());
    let words = store.words(&key)?;
    if arrival.settings.has_new_sources() && !words.is_own(policy, arrival) {
        return None;
    }
    let outcome = words.charge_words(policy, arrival);
    if outcome.is_limited() && policy.only_limit().is_some() {
        store.keep_denial(&key, &words, arrival.at);
    }
    Some(outcome)
}

/// Charges a packet of `source` to its policy, if it has one. If the source needs state and the
/// budget is spent, the configured `over_budget` action applies. `source` then becomes the address
/// that the packet is charged to.
#[inline(always)]
pub fn charge_within_budget<A: Address>(
    source: &mut A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    placed: &impl FamilyTables<A>,
) -> Outcome {
    let outcome = placed.charge(source, policy, arrival);
    if !outcome.is_over_budget() {
        return outcome;
    }
    over_budget(outcome, arrival).unwrap_or_else(|| {
        *source = source.overflow_bucket();
        placed.charge(source, policy, arrival).of_overflow_bucket()
    })
}

/// Whether all limits of `policy` that count a packet of `address`, and the budget if it needs
/// state, have room. It is not charged, and no state is made.
#[inline(always)]
pub fn check<A: Address>(
    address: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    store: &impl Store<A>,
) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let has_budget = has_budget(policy, arrival);
    let outcome = match store.words(&store.key(address, policy.scope())) {
        Some(words) if !has_budget || words.is_own(policy, arrival) => {
            charge::check(policy, &words, arrival)
        }
        _ if has_budget => check_newcomer(address, policy, arrival, store),
        _ => charge::fits(policy, arrival),
    };
    outcome.observed_if(policy.observe())
}

/// Whether a source that needs state may have it. The budget is checked before the limits.
#[inline(always)]
fn check_newcomer<A: Address>(
    address: &A,
    policy: &Policy,
    arrival: &Arrival,
    store: &impl Store<A>,
) -> Outcome {
    if !store.is_budget_spent(arrival) {
        return Outcome::PASSED;
    }
    match arrival.settings.over_budget() {
        OverBudget::Pass => Outcome::PASSED,
        OverBudget::Drop => Outcome::OVER_BUDGET,
        OverBudget::Aggregate => {
            let bucket = address.overflow_bucket();
            let key = store.key(&bucket, policy.scope());
            match store.words(&key) {
                Some(words) if words.is_own(policy, arrival) => {
                    let outcome = charge::check(policy, &words, arrival);
                    if outcome.is_refused() {
                        outcome.of_overflow_bucket()
                    } else {
                        outcome
                    }
                }
                // The bucket needs state, too, for which it has a budget of its own.
                _ => Outcome::PASSED,
            }
        }
    }
}

/// Charges a packet of `address` to the limits of `policy` that count it, making its state at its
/// first packet, or says which limit refuses it.
#[inline(always)]
pub fn charge<A: Address>(
    address: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    store: &impl Store<A>,
) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    charge_all(address, policy, arrival, store).observed_if(policy.observe())
}

#[inline(always)]
fn charge_all<A: Address>(
    address: &A,
    policy: &Policy,
    arrival: &Arrival,
    store: &impl Store<A>,
) -> Outcome {
    let key = store.key(address, policy.scope());
    let has_budget = has_budget(policy, arrival);
    let words = match store.words(&key) {
        Some(words) if !has_budget || words.is_own(policy, arrival) => Some(words),
        _ if has_budget && !store.admits(newcomer(address, arrival), arrival) => {
            return Outcome::OVER_BUDGET;
        }
        Some(words) => Some(words),
        // If another CPU creates the state at the same time, this packet finds it.
        None => match store.insert(&key) {
            Ok(()) | Err(InsertError::Exists) => store.words(&key),
            Err(InsertError::Full) => None,
        },
    };
    match words {
        Some(words) => charge::charge(policy, &words, arrival),
        // A store that makes no state for a moment is as full as a budget that is spent.
        None if has_budget => Outcome::OVER_BUDGET,
        None => Outcome::refused(DropReason::NoState, 0),
    }
}

/// Whether sources of `policy` that have no state need a budget.
#[inline(always)]
fn has_budget(policy: &Policy, arrival: &Arrival) -> bool {
    arrival.settings.has_new_sources() && !policy.is_without_budget()
}

/// Returns whether the new state is that of a source or of an overflow bucket.
#[inline(always)]
fn newcomer<A: Address>(address: &A, arrival: &Arrival) -> Newcomer {
    if arrival.settings.over_budget() == OverBudget::Aggregate && address.is_overflow_bucket() {
        Newcomer::OverflowBucket
    } else {
        Newcomer::Source
    }
}
