//! The budget of neighbour discovery, which is this CPU's alone.

use ratelimit_common::{Instant, neighbour_discovery};

use crate::{atomic, first::first, maps::NEIGHBOUR_DISCOVERY};

subprograms! {
    /// Takes one of the budget; `false` when it is spent.
    pub fn take_neighbour_discovery(at: Instant) -> bool {
        let Some(word) = first(&NEIGHBOUR_DISCOVERY) else {
            return true;
        };
        // SAFETY: an aligned word of a live map value.
        let current = unsafe { atomic::load(word) };
        let Some(next) = neighbour_discovery::step(current, at) else {
            return false;
        };
        // It fails only where another program has interrupted this one.
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(word, current, next) }.is_ok()
    }
}
