//! Charging sliding logs.

use ratelimit_common::{
    Address, Instant, Ipv4, Ipv6, Limit, SourceKey,
    charge::{self, Outcome},
    source::LogKey,
};

use super::{NOTHING, Subprograms, decode, encode};
use crate::map_words::MapLog;

/// [`charge::check_limit`] for a sliding log, which a scope and the index of a limit tell apart.
#[inline(always)]
pub fn check_log<A: Subprograms>(
    source: &A,
    scope: u32,
    limit: &Limit,
    index: usize,
    at: Instant,
) -> Outcome {
    decode((A::CHECK_LOG)(
        limit,
        source,
        log_place(scope, index),
        at.as_nanos(),
    ))
}

/// [`charge::charge_limit`] for a sliding log, which a scope and the index of a limit tell apart.
#[inline(always)]
pub fn charge_log<A: Subprograms>(
    source: &A,
    scope: u32,
    limit: &Limit,
    index: usize,
    at: Instant,
) -> Outcome {
    decode((A::CHARGE_LOG)(
        limit,
        source,
        log_place(scope, index),
        at.as_nanos(),
    ))
}

macro_rules! of_family {
    ($address:ty, $($subprogram:ident = $body:path;)+) => {
        $(
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            limit: *const Limit,
            source: *const $address,
            place: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(limit), Some(source)) = (unsafe { (limit.as_ref(), source.as_ref()) }) else {
                return NOTHING;
            };
            let Some(log) = limit.as_sliding_log() else {
                return NOTHING;
            };
            let ring = MapLog(&log_key(*source, place));
            encode($body(log, &ring, 0, Instant::from_nanos(at_ns)))
        }
        )+
    };
}

of_family!(
    Ipv4,
    check_limit_log_v4 = charge::check_log;
    charge_limit_log_v4 = charge::charge_log;
);
of_family!(
    Ipv6,
    check_limit_log_v6 = charge::check_log;
    charge_limit_log_v6 = charge::charge_log;
);

/// The scope and the limit of a sliding log, in one argument.
#[inline(always)]
fn log_place(scope: u32, index: usize) -> u64 {
    (index as u64) << 32 | u64::from(scope)
}

#[inline(always)]
fn log_key<A: Address>(address: A, place: u64) -> LogKey {
    LogKey::new(&SourceKey::new(address, place as u32)).of_limit((place >> 32) as u32)
}
