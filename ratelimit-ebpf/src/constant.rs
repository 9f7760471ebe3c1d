//! Constants that user space sets when it loads the program, and variables of the program.
//!
//! They lie in maps of one element, whose address is part of the instruction: to read one takes no lookup.
//!
//! The verifier knows their values, and removes the branches that they rule out. `aya_ebpf::Global` does the same around a
//! `MaybeUninit`, a union whose name the kernel's BTF check refuses.

use core::cell::UnsafeCell;

/// A value that is fixed at load.
#[repr(transparent)]
pub struct Constant<T>(T);

impl<T: Copy> Constant<T> {
    /// A constant whose value is `default` unless user space sets another.
    pub const fn new(default: T) -> Self {
        Self(default)
    }

    /// The value.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: the reference is valid. Volatile, because the compiler must not take the default for the value.
        unsafe { (&raw const self.0).read_volatile() }
    }
}

/// A word that all CPUs read and write, as it is for one load of the program: 0 at first.
#[repr(transparent)]
pub struct Variable(UnsafeCell<u64>);

// SAFETY: an aligned word is read and written whole.
unsafe impl Sync for Variable {}

impl Variable {
    /// A variable that is 0.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    /// The value.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        // SAFETY: the place is valid. Volatile, as other CPUs write it.
        unsafe { self.0.get().read_volatile() }
    }

    /// Sets another value.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(value) };
    }
}
