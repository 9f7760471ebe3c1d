//! Programs that the benchmark measures with; none of them is installed.
//!
//! `draw` draws a source, writes it into the packet and calls the program under test; the baseline
//! is `pass`. `send` also draws one and sends the packet on an interface, as does `send_syn`: the
//! traffic of the live cases, ended by `drop` if nothing else drops it. `bare` and the two programs
//! of `minimal` are comparisons for the stores.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod bare;
mod draw;
mod minimal;
mod source;

use aya_ebpf::{
    bindings::xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS},
    btf_maps::ProgramArray,
    helpers::bpf_redirect,
    macros::{btf_map, xdp},
    programs::XdpContext,
};

/// Index 0 → the program under test.
#[btf_map]
static NEXT: ProgramArray<1> = ProgramArray::new();

/// Draws a source for the packet, and calls the program under test.
#[xdp]
pub fn draw(context: XdpContext) -> u32 {
    if source::draw(&context).is_some() {
        // SAFETY: nothing waits to be dropped here.
        unsafe { NEXT.tail_call(&context, 0) };
    }
    XDP_ABORTED
}

/// The end of the baseline: an empty program.
#[xdp]
pub fn pass(_: XdpContext) -> u32 {
    XDP_PASS
}

/// The least that can be done about a packet that is not wanted.
#[xdp]
pub fn drop(_: XdpContext) -> u32 {
    XDP_DROP
}

/// Like the baseline, but reads state of the source that the CPU has to fetch from memory.
#[xdp]
pub fn drop_after_a_look(context: XdpContext) -> u32 {
    match source::read(&context) {
        Some(0) | None => XDP_PASS,
        Some(_) => XDP_DROP,
    }
}

/// Passes packets from 10.77.0.0/16 and drops all others.
#[xdp]
pub fn only_users(context: XdpContext) -> u32 {
    match source::read(&context).map(u32::to_ne_bytes) {
        Some([10, 77, ..]) => XDP_PASS,
        Some(_) | None => XDP_DROP,
    }
}

/// Only counts the packets of each source.
#[xdp]
pub fn bare(context: XdpContext) -> u32 {
    match bare::count(&context) {
        Some(()) => XDP_PASS,
        None => XDP_ABORTED,
    }
}

/// Limits each source with the kernel's hash map.
#[xdp]
pub fn minimal(context: XdpContext) -> u32 {
    minimal::with_lru(&context).unwrap_or(XDP_ABORTED)
}

/// Limits each source with sets of eight.
#[xdp]
pub fn minimal_sets(context: XdpContext) -> u32 {
    minimal::with_sets(&context).unwrap_or(XDP_ABORTED)
}

/// Draws a source for the IPv4 packet, and sends it.
#[xdp]
pub fn send(context: XdpContext) -> u32 {
    put_on_the_wire(&context).unwrap_or(XDP_ABORTED)
}

/// The same of a TCP segment whose checksum is right for each source: its sequence number takes
/// back what the source adds.
#[xdp]
pub fn send_syn(context: XdpContext) -> u32 {
    let action = put_on_the_wire(&context);
    match source::balance(&context) {
        Some(()) => action.unwrap_or(XDP_ABORTED),
        None => XDP_ABORTED,
    }
}

#[inline(always)]
fn put_on_the_wire(context: &XdpContext) -> Option<u32> {
    let draw = source::draw(context)?;
    source::write_checksum(context, draw)?;
    // SAFETY: takes no pointers.
    Some(unsafe { bpf_redirect(draw.interface, 0) as u32 })
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The helpers of these programs are open to any licence; the kernel asks for one that it knows.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
