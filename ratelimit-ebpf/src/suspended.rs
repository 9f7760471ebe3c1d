//! Temporarily suspended features: all limits and bans by `pass-all`, or a challenge that no client
//! completes.

use ratelimit_common::Instant;

use crate::maps::SUSPENDED_UNTIL;

/// Returns the end of the suspension at an index of `layout::suspended`.
#[inline(always)]
pub fn until(index: u32) -> Instant {
    Instant::from_nanos(SUSPENDED_UNTIL.get(index).copied().unwrap_or_default())
}
