//! What is suspended for a while: everything by `pass-all`, or the challenge where nobody proves itself.

use ratelimit_common::Instant;

use crate::maps::SUSPENDED_UNTIL;

/// Until when what stands at an index of `layout::suspended` is.
#[inline(always)]
pub fn until(index: u32) -> Instant {
    Instant::from_nanos(SUSPENDED_UNTIL.get(index).copied().unwrap_or_default())
}
