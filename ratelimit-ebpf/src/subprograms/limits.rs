//! Charging the limits of a source, in either store.

use ratelimit_common::{Arrival, Ipv4, Ipv6, Policy, charge::Outcome, state};

use super::{NOTHING, decode, encode, nullable, pack, unpack};
use crate::{
    compact::{self, SlotStore},
    records::Records,
    tables::{FamilyCode, KernelTables},
};

/// Charging a source, with its policy, for a packet.
pub trait LimitCode {
    /// [`state::check`], where the store is `lru`.
    fn check_record(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`state::charge`], where the store is `lru`.
    fn charge_record(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`state::charge_within_budget`].
    fn charge_new(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`state::check`], where it is `compact`.
    fn check_compact(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`state::charge`], where it is `compact`.
    fn charge_compact(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`compact::charge_words`].
    fn charge_compact_words(tag: u64, policy: &Policy, arrival: &Arrival) -> Outcome;
}

macro_rules! of_family {
    ($address:ty, $words:ident, $($function:ident = $subprogram:ident = $body:path;)+) => {
        impl LimitCode for $address {$(
            #[inline(always)]
            fn $function(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
                let at_ns = arrival.at.as_nanos();
                decode($subprogram(self, nullable(policy), at_ns, pack(arrival)))
            }
        )+
            #[inline(always)]
            fn charge_compact_words(tag: u64, policy: &Policy, arrival: &Arrival) -> Outcome {
                decode($words(tag, policy, arrival.at.as_nanos(), pack(arrival)))
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $words(tag: u64, policy: *const Policy, at_ns: u64, packet: u64) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let Some(policy) = (unsafe { policy.as_ref() }) else {
                return NOTHING;
            };
            encode(compact::charge_words::<$address>(tag, policy, &unpack(at_ns, packet)))
        }
        $(
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return NOTHING;
            };
            let arrival = unpack(at_ns, packet);
            encode($body(source, policy, &arrival))
        }
        )+
    };
}

of_family!(
    Ipv4,
    charge_compact_limit_words_v4,
    check_record = check_limits_v4 = check_record;
    charge_record = charge_limits_v4 = charge_record;
    charge_new = charge_new_source_v4 = charge_new;
    check_compact = check_compact_limits_v4 = check_compact;
    charge_compact = charge_compact_limits_v4 = charge_compact;
);
of_family!(
    Ipv6,
    charge_compact_limit_words_v6,
    check_record = check_limits_v6 = check_record;
    charge_record = charge_limits_v6 = charge_record;
    charge_new = charge_new_source_v6 = charge_new;
    check_compact = check_compact_limits_v6 = check_compact;
    charge_compact = charge_compact_limits_v6 = charge_compact;
);

#[inline(always)]
fn check_record<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::check(source, policy, arrival, &Records)
}

#[inline(always)]
fn charge_record<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::charge(source, policy, arrival, &Records)
}

#[inline(always)]
fn charge_new<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::charge_within_budget(*source, policy, arrival, &KernelTables::of(arrival))
}

#[inline(always)]
fn check_compact<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::check(source, policy, arrival, &SlotStore)
}

#[inline(always)]
fn charge_compact<A: FamilyCode>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    state::charge(source, policy, arrival, &SlotStore)
}
