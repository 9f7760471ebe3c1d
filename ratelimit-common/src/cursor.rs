//! A cursor over a packet's bytes, in the form that the BPF verifier can follow.

use core::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, Unaligned};

/// Reads a packet from its front to its end.
///
/// The verifier learns how much of a packet may be read only from a pointer that was compared with
/// the packet's end. A slice keeps pointer and length apart and is refused. See the kernel's [XDP
/// tutorial](https://github.com/xdp-project/xdp-tools/blob/v1.5.5/headers/xdp/parsing_helpers.h)
/// for the C form.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    position: *const u8,
    end: *const u8,
    frame_bytes: u32,
    /// The offset of `position` in the frame, in bytes.
    offset: u16,
    /// The offset in the frame at which reading ends, even if the frame is longer.
    limit: u32,
    packet: PhantomData<&'a [u8]>,
}

impl<'a> Cursor<'a> {
    /// A cursor at the front of `frame`, the whole of a frame.
    pub fn new(frame: &'a [u8]) -> Self {
        Self::with_frame_bytes(frame, u32::try_from(frame.len()).unwrap_or(u32::MAX))
    }

    /// A cursor at the front of `front`, which is what is there of a frame of `frame_bytes` bytes.
    pub fn with_frame_bytes(front: &'a [u8], frame_bytes: u32) -> Self {
        let range = front.as_ptr_range();
        // SAFETY: the range is that of a live slice.
        unsafe { Self::from_raw(range.start, range.end, frame_bytes) }
    }

    /// A cursor from `start` to `end`, over the readable part of a frame of `frame_bytes` bytes.
    ///
    /// # Safety
    ///
    /// The bytes from `start` to `end` are readable and unchanged for `'a`.
    #[inline(always)]
    pub const unsafe fn from_raw(start: *const u8, end: *const u8, frame_bytes: u32) -> Self {
        Self {
            position: start,
            end,
            frame_bytes,
            offset: 0,
            limit: u32::MAX,
            packet: PhantomData,
        }
    }

    /// Bytes of the whole frame as received, without the checksum, fragments of a jumbo frame
    /// included.
    #[inline(always)]
    pub const fn frame_bytes(&self) -> u32 {
        self.frame_bytes
    }

    /// Bytes from the front of the frame to the cursor.
    #[inline(always)]
    pub const fn offset(&self) -> u16 {
        self.offset
    }

    /// Bytes from the front of the frame to the end of its readable part.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a frame is shorter than 4 GiB"
    )]
    pub fn readable(&self) -> u32 {
        let left = self.end.addr().wrapping_sub(self.position.addr());
        u32::from(self.offset).wrapping_add(left as u32)
    }

    /// Limits the cursor to this many bytes from the beginning of the frame.
    #[inline(always)]
    #[must_use]
    pub const fn limited(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// The cursor as if the frame began here.
    #[inline(always)]
    pub const fn as_front(self) -> Self {
        Self {
            frame_bytes: self.frame_bytes.saturating_sub(self.offset as u32),
            offset: 0,
            limit: u32::MAX,
            ..self
        }
    }

    /// The next header, and the cursor behind it; `None`, and nothing moves, when the packet is too
    /// short.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "headers are short")]
    pub fn take<T: FromBytes + Immutable + Unaligned>(&mut self) -> Option<&'a T> {
        let next = self.position.wrapping_add(size_of::<T>());
        let offset = self.offset.wrapping_add(size_of::<T>() as u16);
        // The compiler removes the second comparison for a cursor without a limit.
        if next > self.end || u32::from(offset) > self.limit {
            return None;
        }
        let header = self.position.cast::<T>();
        self.position = next;
        self.offset = offset;
        // SAFETY: `T` is valid for any bytes and alignment, and ends before `end`, within the range
        // promised to `from_raw`.
        Some(unsafe { &*header })
    }

    /// Moves over `count` bytes. Whether they exist is found out by the next [`take`](Self::take).
    #[inline(always)]
    pub fn skip(&mut self, count: u16) {
        self.position = self.position.wrapping_add(usize::from(count));
        self.offset = self.offset.wrapping_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_taken_only_when_all_of_it_is_there() {
        let mut cursor = Cursor::new(&[1, 2, 3]);
        assert_eq!(cursor.take::<[u8; 2]>(), Some(&[1, 2]));
        assert_eq!(cursor.take::<[u8; 2]>(), None);
        assert_eq!(cursor.take::<[u8; 1]>(), Some(&[3]));
        assert_eq!(cursor.take::<[u8; 1]>(), None);
    }

    #[test]
    fn a_frame_of_which_only_the_front_is_there_keeps_its_bytes() {
        let mut cursor = Cursor::with_frame_bytes(&[1, 2], 1514);
        assert_eq!(cursor.frame_bytes(), 1514);
        assert_eq!(cursor.take::<[u8; 2]>(), Some(&[1, 2]));
        assert_eq!(cursor.take::<[u8; 1]>(), None);
    }

    #[test]
    fn what_lies_behind_a_limit_is_not_taken() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4]);
        assert_eq!(cursor.take::<[u8; 1]>(), Some(&[1]));
        let mut cursor = cursor.limited(3);
        assert_eq!(cursor.take::<[u8; 3]>(), None);
        assert_eq!(cursor.take::<[u8; 2]>(), Some(&[2, 3]));
        assert_eq!(cursor.take::<[u8; 1]>(), None);
        assert_eq!(cursor.as_front().take::<[u8; 1]>(), Some(&[4]));
    }

    #[test]
    fn skipping_past_the_end_is_found_out_by_the_next_take() {
        let mut cursor = Cursor::new(&[1, 2, 3]);
        cursor.skip(400);
        assert_eq!(cursor.take::<[u8; 1]>(), None);
    }
}
