//! The results of a check.

use ratelimit_common::{
    charge::{Step, Steps},
    limit::LIMITS_MAX,
};

use crate::{first::First as _, interruption::Claimed, maps::STEPS};

/// The steps of this CPU's current packet. They are not on the stack, which is too small; and the
/// verifier does not track values in a map.
pub struct MapSteps(*mut Claimed<[Step; LIMITS_MAX]>);

impl MapSteps {
    /// The memory of this CPU; `None` while a program that was interrupted has it.
    #[inline(always)]
    pub fn of_this_cpu() -> Option<Self> {
        let place = STEPS.first_ptr()?;
        // SAFETY: a live map value.
        unsafe { Claimed::claim(place) }.map(|_| Self(place))
    }

    #[inline(always)]
    fn step(&self, index: usize) -> *mut Step {
        // SAFETY: a live map value, and the mask keeps the index within it.
        unsafe {
            Claimed::value(self.0)
                .cast::<Step>()
                .add(index & (LIMITS_MAX - 1))
        }
    }
}

impl Drop for MapSteps {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a live map value, which was claimed when this was made.
        unsafe { Claimed::release(self.0) };
    }
}

impl Steps for MapSteps {
    #[inline(always)]
    fn keep(&mut self, index: usize, step: Step) {
        // SAFETY: the memory is this program's until it is given back.
        unsafe { *self.step(index) = step };
    }

    #[inline(always)]
    fn kept(&self, index: usize) -> Step {
        // SAFETY: as above.
        unsafe { *self.step(index) }
    }
}
