//! The front of a frame, to be written.

use core::marker::PhantomData;

use zerocopy::{Immutable, IntoBytes, Unaligned};

/// The front of a frame, to be written.
pub struct Front<'a> {
    start: *mut u8,
    end: *mut u8,
    packet: PhantomData<&'a mut [u8]>,
}

impl Front<'_> {
    /// Creates a front from the bytes from `start` to `end`.
    ///
    /// # Safety
    ///
    /// They must be writable for `'a`, and no references to them may exist during writes.
    #[inline(always)]
    pub const unsafe fn from_raw(start: *mut u8, end: *mut u8) -> Self {
        Self {
            start,
            end,
            packet: PhantomData,
        }
    }

    /// Writes `value` at an offset. `None`, without writing anything, if it does not fit
    /// completely.
    #[inline(always)]
    pub fn put<T: Copy + Immutable + IntoBytes + Unaligned>(
        &self,
        offset: u16,
        value: &T,
    ) -> Option<()> {
        let place = self.start.wrapping_add(usize::from(offset));
        let next = place.wrapping_add(size_of::<T>());
        if next > self.end {
            return None;
        }
        // SAFETY: the destination ends before the end, which the caller promised to be writable,
        // and the type has no alignment.
        unsafe { place.cast::<T>().write(*value) };
        Some(())
    }
}
