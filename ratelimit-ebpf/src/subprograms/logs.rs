//! Charging sliding logs.

use ratelimit_common::{
    Address, Instant, Ipv4, Ipv6, Limit, SourceKey,
    charge::{self, Outcome},
    source::LogKey,
};

use super::{NOTHING, decode, encode};
use crate::state::MapLog;

/// The logs of a source, each told by its scope and the index of its limit.
pub trait LogCode {
    /// [`charge::check_limit`] for a sliding log.
    fn check_log(&self, scope: u32, limit: &Limit, index: usize, at: Instant) -> Outcome;
    /// [`charge::charge_limit`] for a sliding log.
    fn charge_log(&self, scope: u32, limit: &Limit, index: usize, at: Instant) -> Outcome;
}

macro_rules! of_family {
    ($address:ty, $($function:ident = $subprogram:ident = $body:path;)+) => {
        impl LogCode for $address {$(
            #[inline(always)]
            fn $function(&self, scope: u32, limit: &Limit, index: usize, at: Instant) -> Outcome {
                decode($subprogram(limit, self, log_place(scope, index), at.as_nanos()))
            }
        )+}
        $(
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
            limit: *const Limit,
            source: *const $address,
            place: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(limit), Some(source)) = (unsafe { (limit.as_ref(), source.as_ref()) }) else {
                return NOTHING;
            };
            let log = MapLog(&log_key(*source, place));
            encode($body(limit, &log, 0, Instant::from_nanos(at_ns), 1))
        }
        )+
    };
}

of_family!(
    Ipv4,
    check_log = check_limit_log_v4 = charge::check_limit;
    charge_log = charge_limit_log_v4 = charge::charge_limit;
);
of_family!(
    Ipv6,
    check_log = check_limit_log_v6 = charge::check_limit;
    charge_log = charge_limit_log_v6 = charge::charge_limit;
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
