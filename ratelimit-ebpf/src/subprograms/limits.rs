//! Charging the limits of a source, in either store.

use ratelimit_common::{Arrival, Ipv4, Ipv6, Policy, charge::Outcome, new_sources, state};

use super::{NOTHING, decode, encode, nullable, pack, unpack};
use crate::{
    compact,
    tables::{FamilyCode, KernelTables},
};

/// Functions of an address family that take a source, the policy that it is under, and the arrival of a packet.
macro_rules! of_source {
    ($address:ty, $($function:ident = $subprogram:ident = $body:expr;)+) => {$(
        #[inline(always)]
        pub fn $function(source: &$address, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
            decode($subprogram(
                source,
                nullable(policy),
                arrival.at.as_nanos(),
                pack(arrival),
            ))
        }

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
    )+};
}

of_source!(
    Ipv4,
    check_v4 = check_limits_v4 = check;
    charge_v4 = charge_limits_v4 = charge;
    charge_new_v4 = charge_new_source_v4 = charge_new;
    check_compact_v4 = check_compact_limits_v4 = compact::check;
    charge_compact_v4 = charge_compact_limits_v4 = compact::charge;
    charge_compact_words_v4 = charge_compact_limit_words_v4 = compact::charge_words;
);
of_source!(
    Ipv6,
    check_v6 = check_limits_v6 = check;
    charge_v6 = charge_limits_v6 = charge;
    charge_new_v6 = charge_new_source_v6 = charge_new;
    check_compact_v6 = check_compact_limits_v6 = compact::check;
    charge_compact_v6 = charge_compact_limits_v6 = compact::charge;
    charge_compact_words_v6 = charge_compact_limit_words_v6 = compact::charge_words;
);

#[inline(always)]
fn check<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::check(source, policy, arrival, &KernelTables::at(arrival.at))
}

#[inline(always)]
fn charge<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    state::charge(source, policy, arrival, &KernelTables::at(arrival.at))
}

#[inline(always)]
fn charge_new<A: FamilyCode>(source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    new_sources::charge(*source, policy, arrival, &KernelTables::at(arrival.at))
}
