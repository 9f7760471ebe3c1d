//! What a check has worked out.

use ratelimit_common::{
    charge::{Step, Steps},
    policy::LIMITS_MAX,
};

use crate::maps::STEPS;

/// The steps of the packet that this CPU is at. They are no part of the stack, of which there is too little; and what a map
/// holds the verifier does not follow.
pub struct MapSteps(*mut [Step; LIMITS_MAX]);

impl MapSteps {
    /// The memory of this CPU.
    #[inline(always)]
    pub fn of_this_cpu() -> Option<Self> {
        STEPS.get_ptr_mut(0).map(Self)
    }

    #[inline(always)]
    fn step(&self, index: usize) -> *mut Step {
        // SAFETY: a live map value, and the mask keeps the index within it.
        unsafe { self.0.cast::<Step>().add(index & (LIMITS_MAX - 1)) }
    }
}

impl Steps for MapSteps {
    #[inline(always)]
    fn keep(&mut self, index: usize, step: Step) {
        // SAFETY: the memory belongs to this CPU, and XDP programs do not interrupt each other on one.
        unsafe { *self.step(index) = step };
    }

    #[inline(always)]
    fn kept(&self, index: usize) -> Step {
        // SAFETY: as above.
        unsafe { *self.step(index) }
    }
}
