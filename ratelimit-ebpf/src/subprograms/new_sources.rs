//! Sources that have no state yet.

use ratelimit_common::{
    Arrival, Instant, Ipv4, Ipv6, Limit, Policy, Settings,
    charge::Outcome,
    compact::{self, Place, SLOTS, Set},
    new_sources::Newcomer,
};

use super::{NOTHING, Subprograms, decode, encode, pack, unknown, unpack};
use crate::compact::MapSet;

/// [`is_known`](crate::compact::is_known), where the store is `compact`.
#[inline(always)]
pub fn is_known<A: Subprograms>(source: &A, policy: &Policy, arrival: &Arrival) -> bool {
    unknown((A::HAS_STATE)(source, policy, pack(arrival))) != 0
}

macro_rules! of_families {
    ($($address:ty, $subprogram:ident;)+) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            source: *const $address,
            policy: *const Policy,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), Some(policy)) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            crate::compact::is_known(source, policy, &unpack(0, packet)).into()
        }
    )+};
}

of_families!(
    Ipv4, has_state_v4;
    Ipv6, has_state_v6;
);

/// Takes one of the budget for new sources, as it is in the generation of these settings.
#[inline(always)]
pub fn take_new_source(newcomer: Newcomer, at: Instant, settings: Settings) -> bool {
    let settings = settings.of_limits();
    unknown(take_of_budget(
        newcomer as u64,
        at.as_nanos(),
        settings.into(),
    )) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_of_budget(newcomer: u64, at_ns: u64, settings: u64) -> u64 {
    let newcomer = match newcomer {
        0 => Newcomer::Source,
        _ => Newcomer::OverflowBucket,
    };
    let generation = Settings::from_limits(settings as u8).generation();
    crate::new_sources::take(newcomer, Instant::from_nanos(at_ns), generation).into()
}

/// [`compact::check_new`].
#[inline(always)]
pub fn check_new(limit: &Limit, set: MapSet, at: Instant, cost: u64) -> Outcome {
    decode(check_newcomer(limit, set.0, at.as_nanos(), cost))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_newcomer(limit: *const Limit, set: *mut Set, at_ns: u64, cost: u64) -> u64 {
    // SAFETY: as above.
    let Some(limit) = (unsafe { limit.as_ref() }) else {
        return NOTHING;
    };
    if set.is_null() {
        return NOTHING;
    }
    let at = Instant::from_nanos(at_ns);
    encode(compact::check_new(&MapSet(set), limit, at, cost))
}

/// A place: its slot above the outcome, and above that whether it was claimed.
const SLOT_SHIFT: u32 = 32;
const NEW: u64 = 1 << 40;

/// [`compact::place_new`].
#[inline(always)]
pub fn place_new(limit: &Limit, set: MapSet, tag: u64, at: Instant, cost: u64) -> Place {
    let answer = unknown(place_newcomer(limit, set.0, tag, at.as_nanos(), cost));
    Place {
        slot: (answer >> SLOT_SHIFT) as usize & (SLOTS - 1),
        is_new: answer & NEW != 0,
        outcome: Outcome::from_bits(answer as u32),
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn place_newcomer(
    limit: *const Limit,
    set: *mut Set,
    tag: u64,
    at_ns: u64,
    cost: u64,
) -> u64 {
    // SAFETY: as above.
    let Some(limit) = (unsafe { limit.as_ref() }) else {
        return NOTHING;
    };
    if set.is_null() {
        return NOTHING;
    }
    let at = Instant::from_nanos(at_ns);
    let place = compact::place_new(&MapSet(set), tag, limit, at, cost);
    encode(place.outcome) | (place.slot as u64) << SLOT_SHIFT | if place.is_new { NEW } else { 0 }
}
