//! Drawing sources, and writing them into the packet.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map, programs::XdpContext};

use crate::draw::Draw;

/// The offset of 4 bytes of the source, in both families: the whole IPv4 address, the lower half of
/// an IPv6 /64.
const SOURCE_OFFSET: usize = 26;
/// Offset of the checksum of an IPv4 header.
const CHECKSUM_OFFSET: usize = 24;
/// Offset of the sequence number of a TCP segment after an IPv4 header without options.
const SEQUENCE_OFFSET: usize = 38;

/// Index 0 → what this CPU draws.
#[btf_map]
static DRAW: PerCpuArray<Draw, 1> = PerCpuArray::new();

/// Writes the next source into the packet. The generator is the congruential one of Knuth's MMIX,
/// of which the upper half of the state is taken: any number of sources costs the same.
#[inline(always)]
pub fn draw(context: &XdpContext) -> Option<&'static Draw> {
    let draw = DRAW.get_ptr_mut(0)?;
    // SAFETY: the value belongs to this CPU, and XDP programs do not interrupt each other on one.
    let draw = unsafe { &mut *draw };
    draw.state = draw
        .state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let source = current(draw);
    write(context, SOURCE_OFFSET, source.to_be_bytes())?;
    Some(draw)
}

/// Writes the checksum of the IPv4 header that has the source of `draw` (RFC 1071).
#[inline(always)]
pub fn write_checksum(context: &XdpContext, draw: &Draw) -> Option<()> {
    let source = current(draw);
    let sum = draw.header_sum + (source >> 16) + (source & 0xffff);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    write(context, CHECKSUM_OFFSET, (!(folded as u16)).to_be_bytes())
}

/// Writes the complement of the source into the sequence number of a TCP segment behind an IPv4
/// header without options.
#[inline(always)]
pub fn balance(context: &XdpContext) -> Option<()> {
    let source = read(context)?;
    write(context, SEQUENCE_OFFSET, (!source).to_ne_bytes())
}

/// The source in the packet, in network byte order.
#[inline(always)]
pub fn read(context: &XdpContext) -> Option<u32> {
    let start = context.data() + SOURCE_OFFSET;
    if start + size_of::<u32>() > context.data_end() {
        return None;
    }
    // SAFETY: the bytes lie within the packet, which lives as long as the context.
    Some(unsafe { (start as *const u32).read_unaligned() })
}

/// The interface on which packets are sent.
#[inline(always)]
pub fn interface() -> Option<u32> {
    let draw = DRAW.get_ptr(0)?;
    // SAFETY: as above.
    Some(unsafe { (*draw).interface })
}

#[inline(always)]
fn current(draw: &Draw) -> u32 {
    draw.first
        .wrapping_add((draw.state >> 32) as u32 & draw.mask)
}

/// Writes into the packet, where it is long enough.
#[inline(always)]
pub fn write<const BYTES: usize>(
    context: &XdpContext,
    offset: usize,
    bytes: [u8; BYTES],
) -> Option<()> {
    let start = context.data() + offset;
    if start + BYTES > context.data_end() {
        return None;
    }
    // SAFETY: the bytes lie within the packet, which lives as long as the context.
    unsafe { (start as *mut [u8; BYTES]).write_unaligned(bytes) };
    Some(())
}
