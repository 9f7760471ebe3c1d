//! Constants that user space sets when it loads the program.
//!
//! The verifier knows their values, and removes the branches that they rule out. `aya_ebpf::Global`
//! does the same around a `MaybeUninit`, a union whose name the kernel's BTF check refuses.

/// A value that is fixed at load.
#[repr(transparent)]
pub struct Constant<T>(T);

impl<T: Copy> Constant<T> {
    /// A constant whose value is `default` unless user space sets another.
    pub const fn new(default: T) -> Self {
        Self(default)
    }

    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: the reference is valid. Volatile, because the compiler must not take the default
        // for the value.
        unsafe { (&raw const self.0).read_volatile() }
    }
}
