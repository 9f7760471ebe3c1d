//! The results of a check.

use ratelimit_common::charge::Steps;

use crate::{first::first, interruption::Claimed, maps::STEPS};

/// The steps of this CPU's current packet. They are not on the stack, which is too small; and the
/// verifier does not track values in a map.
pub struct MapSteps(*mut Claimed<Steps>);

impl MapSteps {
    /// The memory of this CPU; `None` while a program that was interrupted has it.
    #[inline(always)]
    pub fn of_this_cpu() -> Option<Self> {
        let place = first(&STEPS)?;
        // SAFETY: a live map value.
        unsafe { Claimed::claim(place) }.map(|_| Self(place))
    }

    #[inline(always)]
    pub fn get(&mut self) -> &mut Steps {
        // SAFETY: a live map value, which is this program's until it is given back.
        unsafe { &mut *Claimed::value(self.0) }
    }
}

impl Drop for MapSteps {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a live map value, which was claimed when this was made.
        unsafe { Claimed::release(self.0) };
    }
}
