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
    /// The bytes from `start` to `end`.
    ///
    /// # Safety
    ///
    /// They can be written for `'a`, and nobody holds a reference to them while it writes.
    #[inline(always)]
    pub const unsafe fn from_raw(start: *mut u8, end: *mut u8) -> Self {
        Self {
            start,
            end,
            packet: PhantomData,
        }
    }

    /// Writes `value` so many bytes behind the front; `None`, and nothing is written, where there is no room for all of it.
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
        // SAFETY: all of the place lies before the end, which was promised to be writable, and any place is aligned for the type.
        unsafe { place.cast::<T>().write(*value) };
        Some(())
    }
}
