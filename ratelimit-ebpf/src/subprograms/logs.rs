//! Charging sliding logs.

use ratelimit_common::{
    Address, Instant, Ipv4, Ipv6, Limit, SourceKey,
    charge::{self, Outcome},
    source::LogKey,
};

use super::{NOTHING, decode, encode};
use crate::state::MapLog;

/// What is done with the log of a source at [`log_place`].
macro_rules! of_log {
    ($($function:ident = $subprogram:ident = $body:path, $address:ty;)+) => {$(
        #[inline(always)]
        pub fn $function(limit: &Limit, source: &$address, place: u64, at: Instant) -> Outcome {
            decode($subprogram(limit, source, place, at.as_nanos()))
        }

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
    )+};
}

of_log!(
    check_log_v4 = check_limit_log_v4 = charge::check_limit, Ipv4;
    charge_log_v4 = charge_limit_log_v4 = charge::charge_limit, Ipv4;
    check_log_v6 = check_limit_log_v6 = charge::check_limit, Ipv6;
    charge_log_v6 = charge_limit_log_v6 = charge::charge_limit, Ipv6;
);

/// The scope and the limit of a sliding log, in one argument.
#[inline(always)]
pub fn log_place(scope: u32, index: usize) -> u64 {
    (index as u64) << 32 | u64::from(scope)
}

#[inline(always)]
fn log_key<A: Address>(address: A, place: u64) -> LogKey {
    LogKey::new(&SourceKey::new(address, place as u32)).of_limit((place >> 32) as u32)
}
