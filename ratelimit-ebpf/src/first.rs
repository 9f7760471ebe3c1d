//! The first element of a map: many have no other.

use core::ptr::{self, NonNull};

use aya_ebpf::{btf_maps::PerCpuArray, helpers::bpf_map_lookup_elem, maps as untyped};

use crate::constant::Constant;

/// The index, which user space does not change. Passing a pointer to memory takes three
/// instructions less than writing the index to the stack.
#[unsafe(no_mangle)]
static FIRST: Constant<u32> = Constant::new(0);

/// A map with an element at index 0. No packet finds none there, which only the verifier does not
/// know.
pub trait First<T: 'static> {
    /// The element.
    #[inline(always)]
    fn first_ptr(&'static self) -> Option<*mut T> {
        let (map, index) = (ptr::from_ref(self), &raw const FIRST);
        // SAFETY: the address of a map identifies it, and its keys are such numbers.
        let value = unsafe { bpf_map_lookup_elem(map.cast_mut().cast(), index.cast()) };
        NonNull::new(value.cast()).map(NonNull::as_ptr)
    }

    /// The element, which is not written while it is held.
    #[inline(always)]
    fn first(&'static self) -> Option<&'static T> {
        // SAFETY: a live map value of this type.
        self.first_ptr().map(|value| unsafe { &*value })
    }
}

impl<T: 'static> First<T> for untyped::Array<T> {}

impl<T: 'static, const N: usize, const FLAGS: usize> First<T> for PerCpuArray<T, N, FLAGS> {}
