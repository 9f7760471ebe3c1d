//! The state of a source, or of a prefix around it, under one policy: found or made, and charged.

use crate::{
    Address, Arrival, DropReason, Policy, SourceKey, Tables,
    charge::{self, Outcome},
    new_sources,
    tables::{FamilyTables, InsertError},
};

/// Whether all limits of `policy` that count a packet of `address` have room. It is not charged, and no state is made.
#[inline(always)]
pub fn check<A, T>(address: &A, policy: Option<&Policy>, arrival: &Arrival, tables: &T) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let outcome = match tables.words(&SourceKey::new(*address, policy.scope())) {
        Some(words) => charge::check(policy, &words, arrival),
        // The budget comes before the limits, and is not asked for until the packet is charged.
        None if new_sources::is_needed(policy, tables) => Outcome::PASSED,
        None => charge::fits(policy, arrival),
    };
    outcome.observed_if(policy.observe())
}

/// Charges a packet of `address` to the limits of `policy` that count it, making its state at its first packet, or says
/// which limit refuses it. What was refused is charged to none, and is refused again if it is tried again.
#[inline(always)]
pub fn charge<A, T>(address: &A, policy: Option<&Policy>, arrival: &Arrival, tables: &T) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let outcome = charge_all(address, policy, arrival, tables);
    outcome.observed_if(policy.observe())
}

#[inline(always)]
fn charge_all<A, T>(address: &A, policy: &Policy, arrival: &Arrival, tables: &T) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let key = SourceKey::new(*address, policy.scope());
    let mut words = tables.words(&key);
    if words.is_none() {
        if new_sources::is_beyond(address, policy, arrival.at, tables) {
            return new_sources::BEYOND;
        }
        // Where another CPU makes the state at the same time, this packet finds that one.
        words = match tables.insert(&key) {
            Ok(()) | Err(InsertError::Exists) => tables.words(&key),
            Err(InsertError::Full) => None,
        };
    }
    match words {
        Some(words) => charge::charge(policy, &words, arrival),
        None => Outcome::refused(DropReason::NoState, 0),
    }
}
