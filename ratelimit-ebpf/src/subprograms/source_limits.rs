//! Charging the limits of a source, in either store.

use ratelimit_common::{Arrival, Ipv4, Ipv6, Policy, charge::Outcome, source_limits};

use super::{NOTHING, OfSource, Subprograms, decode, encode, nullable, pack, unpack};
use crate::{
    compact::{self, SlotStore},
    lru::Records,
    tables::KernelTables,
};

/// [`source_limits::check`], where the store is `lru`.
#[inline(always)]
pub fn check_record<A: Subprograms>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    call(A::CHECK_RECORD, source, policy, arrival)
}

/// [`source_limits::charge`], where the store is `lru`.
#[inline(always)]
pub fn charge_record<A: Subprograms>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    call(A::CHARGE_RECORD, source, policy, arrival)
}

/// [`source_limits::charge_within_budget`].
#[inline(always)]
pub fn charge_new<A: Subprograms>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    call(A::CHARGE_NEW, source, policy, arrival)
}

/// [`source_limits::check`], where it is `compact`.
#[inline(always)]
pub fn check_slots<A: Subprograms>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    call(A::CHECK_SLOTS, source, policy, arrival)
}

/// [`source_limits::charge`], where it is `compact`.
#[inline(always)]
pub fn charge_slots<A: Subprograms>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    call(A::CHARGE_SLOTS, source, policy, arrival)
}

/// [`compact::charge_words`].
#[inline(always)]
pub fn charge_slot_words<A: Subprograms>(tag: u64, policy: &Policy, arrival: &Arrival) -> Outcome {
    decode((A::CHARGE_SLOT_WORDS)(
        tag,
        policy,
        arrival.at.as_nanos(),
        pack(arrival),
    ))
}

#[inline(always)]
fn call<A>(
    subprogram: OfSource<A>,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    decode(subprogram(
        source,
        nullable(policy),
        arrival.at.as_nanos(),
        pack(arrival),
    ))
}

macro_rules! of_family {
    ($address:ty, $words:ident, $($subprogram:ident = $body:expr;)+) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $words(tag: u64, policy: *const Policy, at_ns: u64, packet: u64) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let Some(policy) = (unsafe { policy.as_ref() }) else {
                return NOTHING;
            };
            encode(compact::charge_words::<$address>(tag, policy, &unpack(at_ns, packet)))
        }
        $(
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
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
            encode(($body)(source, policy, &arrival))
        }
        )+
    };
}

of_family!(
    Ipv4,
    charge_compact_limit_words_v4,
    check_limits_v4 = |source: &_, policy, arrival: &_| source_limits::check(source, policy, arrival, &Records);
    charge_limits_v4 = |source: &_, policy, arrival: &_| source_limits::charge(source, policy, arrival, &Records);
    charge_new_source_v4 = |source: &_, policy, arrival: &_| source_limits::charge_within_budget(&mut { *source }, policy, arrival, &KernelTables::of(arrival));
    check_compact_limits_v4 = |source: &_, policy, arrival: &_| source_limits::check(source, policy, arrival, &SlotStore);
    charge_compact_limits_v4 = |source: &_, policy, arrival: &_| source_limits::charge(source, policy, arrival, &SlotStore);
);
of_family!(
    Ipv6,
    charge_compact_limit_words_v6,
    check_limits_v6 = |source: &_, policy, arrival: &_| source_limits::check(source, policy, arrival, &Records);
    charge_limits_v6 = |source: &_, policy, arrival: &_| source_limits::charge(source, policy, arrival, &Records);
    charge_new_source_v6 = |source: &_, policy, arrival: &_| source_limits::charge_within_budget(&mut { *source }, policy, arrival, &KernelTables::of(arrival));
    check_compact_limits_v6 = |source: &_, policy, arrival: &_| source_limits::check(source, policy, arrival, &SlotStore);
    charge_compact_limits_v6 = |source: &_, policy, arrival: &_| source_limits::charge(source, policy, arrival, &SlotStore);
);
