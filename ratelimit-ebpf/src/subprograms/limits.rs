//! Charging the limits of a source, in either store.

use ratelimit_common::{Arrival, Ipv4, Ipv6, Policy, charge::Outcome, new_sources, state};

use super::{NOTHING, decode, encode, nullable, pack, unpack};
use crate::{
    compact,
    tables::{FamilyCode, KernelTables},
};

/// Charging a source, with its policy, for a packet.
pub trait LimitCode {
    /// [`state::check`], where the store is `lru`.
    fn check_record(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`state::charge`], where the store is `lru`.
    fn charge_record(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`new_sources::charge`].
    fn charge_new(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`compact::check`].
    fn check_compact(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`compact::charge`].
    fn charge_compact(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`compact::charge_words`].
    fn charge_compact_words(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
}

macro_rules! of_family {
    ($address:ty, $($function:ident = $subprogram:ident = $body:path;)+) => {
        impl LimitCode for $address {$(
            #[inline(always)]
            fn $function(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
                let at_ns = arrival.at.as_nanos();
                decode($subprogram(self, nullable(policy), at_ns, pack(arrival)))
            }
        )+}
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
    check_record = check_limits_v4 = check;
    charge_record = charge_limits_v4 = charge;
    charge_new = charge_new_source_v4 = charge_new;
    check_compact = check_compact_limits_v4 = compact::check;
    charge_compact = charge_compact_limits_v4 = compact::charge;
    charge_compact_words = charge_compact_limit_words_v4 = compact::charge_words;
);
of_family!(
    Ipv6,
    check_record = check_limits_v6 = check;
    charge_record = charge_limits_v6 = charge;
    charge_new = charge_new_source_v6 = charge_new;
    check_compact = check_compact_limits_v6 = compact::check;
    charge_compact = charge_compact_limits_v6 = compact::charge;
    charge_compact_words = charge_compact_limit_words_v6 = compact::charge_words;
);

#[inline(always)]
fn check<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::check(source, policy, arrival, &KernelTables::of(arrival))
}

#[inline(always)]
fn charge<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::charge(source, policy, arrival, &KernelTables::of(arrival))
}

#[inline(always)]
fn charge_new<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    new_sources::charge(*source, policy, arrival, &KernelTables::of(arrival))
}
