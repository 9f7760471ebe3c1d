//! Words that several CPUs change at once.

use crate::bits;

/// The attempts at a compare-and-swap before the packet is refused. Ignoring the failure would
/// admit 1.94 times the limit on two CPUs.
pub const ATTEMPTS: usize = 4;

/// The result of the first of these attempts in which no other CPU interfered; `None` if one always
/// did.
#[inline(always)]
pub fn retry<T>(attempts: usize, attempt: impl Fn() -> Option<T>) -> Option<T> {
    // If the compiler knew the first value, it would unroll the loop.
    for _ in bits::opaque(0)..attempts as u64 {
        let result = attempt();
        if result.is_some() {
            return result;
        }
    }
    None
}
