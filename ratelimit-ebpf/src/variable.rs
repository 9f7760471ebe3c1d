//! Variables that all CPUs share, without a lookup: the address is part of the instruction. They
//! begin at 0 with each load.

use core::cell::UnsafeCell;

/// A word that all CPUs read and write.
#[repr(transparent)]
pub struct Variable(UnsafeCell<u64>);

// SAFETY: an aligned word is read and written whole.
unsafe impl Sync for Variable {}

impl Variable {
    pub const fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    #[inline(always)]
    pub fn get(&self) -> u64 {
        // SAFETY: the place is valid. Volatile, as other CPUs write it.
        unsafe { self.0.get().read_volatile() }
    }

    #[inline(always)]
    pub fn set(&self, value: u64) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(value) };
    }
}
