//! The frame that a program is run for.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::Cursor;

/// A cursor at the front of the frame, which has `frame_bytes` bytes, not all of them readable.
#[inline(always)]
pub fn cursor(context: &XdpContext, frame_bytes: u32) -> Cursor<'_> {
    // SAFETY: the kernel gives the bounds of the packet, which lives as long as the context.
    unsafe {
        Cursor::from_raw(
            context.data() as *const u8,
            context.data_end() as *const u8,
            frame_bytes,
        )
    }
}
