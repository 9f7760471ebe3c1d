//! The first element of a map: many have no other.

use core::ptr::{self, NonNull};

use aya_ebpf::{btf_maps::PerCpuArray, helpers::bpf_map_lookup_elem};

use crate::constant::Constant;

/// The index, which user space does not change. Passing a pointer to memory takes three
/// instructions less than writing the index to the stack.
#[unsafe(no_mangle)]
static FIRST: Constant<u32> = Constant::new(0);

/// The element at index 0. No packet finds none there, which only the verifier does not know.
#[inline(always)]
pub fn first<T, const N: usize, const FLAGS: usize>(
    map: &'static PerCpuArray<T, N, FLAGS>,
) -> Option<*mut T> {
    // SAFETY: its elements are of this type.
    unsafe { first_of(map) }
}

/// [`first`] of another map.
///
/// # Safety
///
/// Its keys are numbers of 32 bits, and its elements are of type `T`.
#[inline(always)]
pub unsafe fn first_of<T, Map>(map: &'static Map) -> Option<*mut T> {
    let (map, index) = (ptr::from_ref(map), &raw const FIRST);
    // SAFETY: the address of a map identifies it; the rest is the caller's.
    let value = unsafe { bpf_map_lookup_elem(map.cast_mut().cast(), index.cast()) };
    NonNull::new(value.cast()).map(NonNull::as_ptr)
}
