//! The state of a source, or of a prefix around it, under one policy: found or made, and charged.

use crate::{
    Address, Arrival, DropReason, Policy, SourceKey,
    charge::{self, Outcome},
    tables::{FamilyTables, InsertError},
};

/// Whether all limits of `policy` that count a packet of `address` have room. It is not charged, and no state is made.
#[inline(always)]
pub fn check<A: Address>(
    address: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let outcome = match tables.words(&SourceKey::new(*address, policy.scope())) {
        Some(words) => charge::check(policy, &words, arrival),
        None => charge::fits(policy, arrival),
    };
    outcome.observed_if(policy.observe())
}

/// Charges a packet of `address` to the limits of `policy` that count it, making its state at its first packet, or says
/// which limit refuses it. What was refused is charged to none, and is refused again if it is tried again.
#[inline(always)]
pub fn charge<A: Address>(
    address: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let outcome = charge_all(address, policy, arrival, tables);
    outcome.observed_if(policy.observe())
}

#[inline(always)]
fn charge_all<A: Address>(
    address: &A,
    policy: &Policy,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> Outcome {
    let key = SourceKey::new(*address, policy.scope());
    // Where another CPU makes the state at the same time, this packet finds that one.
    let words = tables.words(&key).or_else(|| match tables.insert(&key) {
        Ok(()) | Err(InsertError::Exists) => tables.words(&key),
        Err(InsertError::Full) => None,
    });
    match words {
        Some(words) => charge::charge(policy, &words, arrival),
        None => Outcome::refused(DropReason::NoState, 0),
    }
}
