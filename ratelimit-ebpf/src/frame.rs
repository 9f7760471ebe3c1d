//! The frame that a program is run for.
//!
//! XDP and TCX describe it differently, which only this file knows.
//!
//! A frame of several buffers may have an empty or a short first one: mlx5 with striding receive
//! queues puts nothing there. The front of such a frame is copied, and read from there; all others
//! are read where they lie.

use core::ops::Range;

#[cfg(feature = "tcx")]
pub use aya_ebpf::bindings::__sk_buff as Context;
#[cfg(not(feature = "tcx"))]
pub use aya_ebpf::bindings::xdp_md as Context;
use aya_ebpf::{cty::c_void, helpers};
use ratelimit_common::{
    Cursor,
    features::{self, Feature},
    frame_size,
    layout::FRONT_COPIED,
    parse::transport::UpperLayer,
};

use crate::{first::first, interruption, maps::FRONT, subprogram::opaque};

/// The readable bytes of the packet.
#[inline(always)]
pub fn bounds(context: *mut Context) -> Range<*mut u8> {
    // SAFETY: the context lives as long as the program runs.
    unsafe { (*context).data as *mut u8..(*context).data_end as *mut u8 }
}

#[inline(always)]
fn length(bounds: &Range<*mut u8>) -> u32 {
    (bounds.end as usize).wrapping_sub(bounds.start as usize) as u32
}

/// The bytes of the whole frame. To ask for them costs a call at XDP.
#[inline(always)]
pub fn bytes(context: *mut Context) -> u32 {
    // SAFETY: the context lives as long as the program runs; the helper reads the length of its
    // frame.
    unsafe {
        #[cfg(feature = "tcx")]
        return (*context).len;
        #[cfg(not(feature = "tcx"))]
        return helpers::bpf_xdp_get_buff_len(context) as u32;
    }
}

#[cfg(feature = "tcx")]
subprograms! {
    /// The [size](frame_size) of the frame at TCX, with the packets that GRO merged, or that the
    /// sender left to its card to cut.
    pub fn merged_size(context: *mut Context) -> u32 {
        // SAFETY: the context lives as long as the program runs.
        let (packets, each) = unsafe { ((*context).gso_segs, (*context).gso_size) };
        let bytes = bytes(context);
        // A virtual machine leaves it to its host to count them.
        let packets = if packets == 0 && each != 0 {
            bytes.div_ceil(each)
        } else {
            packets
        };
        frame_size::merged(bytes, packets)
    }
}

/// The VLAN of the tag that the kernel took off the frame, which it does before TCX.
#[inline(always)]
#[cfg(feature = "tcx")]
pub fn taken_vlan(context: *mut Context) -> Option<u32> {
    const VLAN_ID: u32 = 0xfff;
    // SAFETY: the context lives as long as the program runs.
    let (present, tag) = unsafe { ((*context).vlan_present, (*context).vlan_tci) };
    (present != 0).then_some(tag & VLAN_ID)
}

/// Copies `bytes` bytes at an offset of the frame, and returns whether it has them.
///
/// # Safety
///
/// There is room for them at `place`.
#[inline(always)]
pub unsafe fn read(context: *mut Context, offset: u32, place: *mut c_void, bytes: u32) -> bool {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(feature = "tcx")]
        return helpers::bpf_skb_load_bytes(context.cast(), offset, place, bytes) == 0;
        #[cfg(not(feature = "tcx"))]
        return helpers::bpf_xdp_load_bytes(context, offset, place, bytes) == 0;
    }
}

/// Whether the first buffer of a frame is too short. If programs on a CPU can interrupt each other,
/// there is no copy, and such a frame counts as truncated.
#[inline(always)]
fn is_short(bounds: &Range<*mut u8>, frame_bytes: impl FnOnce() -> u32) -> bool {
    let readable = length(bounds);
    features::is_enabled::<{ Feature::Frags as u8 }>()
        && !interruption::is_possible()
        && readable < FRONT_COPIED
        && frame_bytes() > readable
}

/// The bytes that can be read of a frame of `frame_bytes` bytes.
#[inline(always)]
pub fn readable(context: *mut Context, frame_bytes: u32) -> u32 {
    let bounds = bounds(context);
    if is_short(&bounds, || frame_bytes) {
        return frame_bytes.min(FRONT_COPIED);
    }
    length(&bounds)
}

/// Copies the front of a frame of `frame_bytes` bytes, if the first buffer has too little of it.
#[inline(always)]
pub fn copy_short(context: *mut Context, frame_bytes: u32) {
    if is_short(&bounds(context), || frame_bytes) {
        copy_front(context, frame_bytes);
    }
}

subprograms! {
    fn copy_front(context: *mut Context, frame_bytes: u32) {
        let Some(front) = first(&FRONT) else {
            return;
        };
        // A frame that is longer than its first buffer has at least one byte. The mask is for the
        // verifier.
        let bytes = frame_bytes.min(FRONT_COPIED).wrapping_sub(1) & (FRONT_COPIED - 1);
        let bytes = bytes.wrapping_add(1);
        // SAFETY: a live map value of this CPU, on which no program interrupts another; it holds as
        // many bytes as the mask lets through.
        unsafe {
            let copied = (&raw mut (*front).copied).cast::<c_void>();
            let is_read = read(context, 0, copied, bytes);
            (*front).bytes = if is_read { bytes.into() } else { 0 };
        }
    }
}

/// A cursor at the beginning of the frame, which has this size, not all of it readable: over the
/// first buffer, or over the copy.
#[inline(always)]
pub fn cursor<'a>(context: *mut Context, size: u32) -> Cursor<'a> {
    if is_short(&bounds(context), || frame_size::bytes(size)) {
        return copied(size);
    }
    in_buffer(bounds_again(context), size)
}

/// Reads the frame in a subprogram, which does not know its length and whether it was copied. The
/// program does not return that: the verifier of 6.1 would follow everything after it twice.
#[inline(always)]
pub fn reread<'a>(context: *mut Context) -> (Cursor<'a>, bool) {
    if is_short(&bounds(context), || bytes(context)) {
        return (copied(0), true);
    }
    (in_buffer(bounds_again(context), 0), false)
}

/// A cursor at the front of a frame that takes one buffer.
#[inline(always)]
pub fn whole<'a>(context: *mut Context) -> Cursor<'a> {
    let bounds = bounds(context);
    let frame_bytes = length(&bounds);
    in_buffer(bounds, frame_bytes)
}

/// Such a cursor, by [`bounds_again`].
#[inline(always)]
pub fn whole_by_context<'a>(context: *mut Context) -> Cursor<'a> {
    let bounds = bounds_again(context);
    let frame_bytes = length(&bounds);
    in_buffer(bounds, frame_bytes)
}

/// The readable bytes of the packet, by the context: the compiler would keep the earlier bounds on
/// the stack, which has no room, and the verifier of 6.1 would follow them through every branch.
#[inline(always)]
fn bounds_again(context: *mut Context) -> Range<*mut u8> {
    // SAFETY: the context lives as long as the program runs.
    unsafe {
        let start = (&raw const (*context).data).read_volatile() as *mut u8;
        let end = (&raw const (*context).data_end).read_volatile() as *mut u8;
        start..end
    }
}

#[inline(always)]
fn in_buffer<'a>(bounds: Range<*mut u8>, frame_bytes: u32) -> Cursor<'a> {
    // SAFETY: the kernel gives the bounds of the packet, which lives as long as the program runs.
    unsafe { Cursor::from_raw(bounds.start, bounds.end, frame_bytes) }
}

#[inline(always)]
fn copied<'a>(frame_bytes: u32) -> Cursor<'a> {
    let Some(front) = first(&FRONT) else {
        return Cursor::with_frame_bytes(&[], frame_bytes);
    };
    // SAFETY: a live map value, which outlasts the program, with this many copied bytes.
    unsafe {
        let start = (&raw const (*front).copied).cast::<u8>();
        let bytes = (*front).bytes as usize & (2 * FRONT_COPIED as usize - 1);
        Cursor::from_raw(start, start.add(bytes), frame_bytes)
    }
}

/// An upper layer as it is read from a copy: one behind its end is as far behind it as the verifier
/// wants to see.
#[inline(always)]
pub fn within(is_copied: bool, upper: UpperLayer) -> UpperLayer {
    if !is_copied {
        return upper;
    }
    // The compiler may not take this for part of another comparison, leave out the mask, or make an
    // "or" of the sum: the verifier of 6.1 would not see the bound.
    let offset = opaque(upper.offset().into()) as u32;
    let rest = opaque(opaque(upper.to_bits().into()) & !u64::from(u16::MAX)) as u32;
    UpperLayer::from_bits(rest.wrapping_add(offset.min(2 * FRONT_COPIED - 1)))
}
