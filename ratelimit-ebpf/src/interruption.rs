//! Whether programs on one CPU can interrupt each other.
//!
//! In a normal kernel they cannot: they run one after the other in the receive soft interrupt. A
//! real-time kernel (`PREEMPT_RT`) runs it in threads, which may preempt each other because the
//! kernel can be built without a lock around them (`PREEMPT_RT_NEEDS_BH_LOCK`, Linux 6.18). There,
//! the data of a CPU is claimed, counted atomically, or not used at all.

use ratelimit_common::features::{self, Feature};

use crate::atomic;

/// Whether another program may run on this CPU before this one has ended.
#[inline(always)]
pub fn is_possible() -> bool {
    features::is_enabled::<{ Feature::Interruptible as u8 }>()
}

/// Does the same as [`is_possible`] if a number is already in a register, which saves an
/// instruction.
#[inline(always)]
pub fn is_possible_beside(number: u64) -> bool {
    features::is_enabled_beside::<{ Feature::Interruptible as u8 }>(number)
}

/// Adds to counters of this CPU.
///
/// # Safety
///
/// They point into live map values and are aligned.
#[inline(always)]
pub unsafe fn add<const N: usize>(counts: [(*mut u64, u64); N]) {
    let is_possible = is_possible();
    for (counter, count) in counts {
        // SAFETY: the caller's.
        unsafe {
            if is_possible {
                atomic::add(counter, count);
            } else {
                *counter = (*counter).wrapping_add(count);
            }
        }
    }
}

/// Memory of this CPU that one program at a time may use. It is given back by
/// [`release`](Self::release).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Claimed<T> {
    // In front, so that it begins a line of the cache.
    value: T,
    is_taken: u64,
}

impl<T> Claimed<T> {
    /// The memory at `place`; `None` while a program that was interrupted has it.
    ///
    /// # Safety
    ///
    /// `place` is a live map value.
    #[inline(always)]
    pub unsafe fn claim(place: *mut Self) -> Option<*mut T> {
        // SAFETY: the caller's.
        unsafe {
            if is_possible() && atomic::compare_exchange(&raw mut (*place).is_taken, 0, 1).is_err()
            {
                return None;
            }
            Some(&raw mut (*place).value)
        }
    }

    /// The memory at `place`, which this program has claimed.
    ///
    /// # Safety
    ///
    /// `place` is a live map value.
    #[inline(always)]
    pub unsafe fn value(place: *mut Self) -> *mut T {
        // SAFETY: the caller's.
        unsafe { &raw mut (*place).value }
    }

    /// Lets other programs claim the memory at `place`.
    ///
    /// # Safety
    ///
    /// `place` is a live map value that this program has claimed.
    #[inline(always)]
    pub unsafe fn release(place: *mut Self) {
        if is_possible() {
            // SAFETY: the caller's. A single store, after all that went before it on this CPU.
            unsafe { (&raw mut (*place).is_taken).write_volatile(0) };
        }
    }
}
