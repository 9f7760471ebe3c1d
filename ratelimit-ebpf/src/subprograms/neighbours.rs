//! The budget of neighbour discovery, which is this CPU's alone.

use ratelimit_common::{Instant, neighbour_discovery};

use super::unknown;
use crate::{atomic, first::First as _, maps::NEIGHBOUR_DISCOVERY};

/// Takes one of the budget; `false` when it is spent.
#[inline(always)]
pub fn take_neighbour_discovery(at: Instant) -> bool {
    unknown(take_of_neighbours(at.as_nanos())) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_of_neighbours(at_ns: u64) -> u64 {
    let Some(word) = NEIGHBOUR_DISCOVERY.first_ptr() else {
        return 1;
    };
    // SAFETY: an aligned word of a live map value.
    let current = unsafe { atomic::load(word) };
    let Some(next) = neighbour_discovery::step(current, Instant::from_nanos(at_ns)) else {
        return 0;
    };
    // It fails only where another program has interrupted this one.
    // SAFETY: as above.
    unsafe { atomic::compare_exchange(word, current, next) }
        .is_ok()
        .into()
}
