//! Programs that the benchmark measures with; none of them is installed.
//!
//! `draw` draws a source, writes it into the packet and calls the program under test; the baseline
//! is `pass`. `send` also draws one and sends the packet on an interface: the traffic of the live
//! cases, ended by `drop` if nothing else drops it. The programs of `flood` send at a rate. `bare`
//! and the two programs of `minimal` are comparisons for the stores.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod bare;
mod draw;
mod flood;
mod minimal;
mod pace;
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

/// Sends datagrams at a rate.
#[xdp]
pub fn flood(context: XdpContext) -> u32 {
    if !flood::is_due() {
        return XDP_DROP;
    }
    flood::restore(&context)
        .and_then(|()| put_on_the_wire(&context))
        .unwrap_or(XDP_ABORTED)
}

/// Sends TCP segments at a rate, whose checksum is right for each source: their sequence number
/// takes back what the source adds.
#[xdp]
pub fn flood_syn(context: XdpContext) -> u32 {
    if !flood::is_due() {
        return XDP_DROP;
    }
    let action = flood::restore(&context).and_then(|()| put_on_the_wire(&context));
    match source::balance(&context) {
        Some(()) => action.unwrap_or(XDP_ABORTED),
        None => XDP_ABORTED,
    }
}

/// Sends the frames of a capture at a rate.
#[xdp]
pub fn flood_captured(context: XdpContext) -> u32 {
    if !flood::is_due() {
        return XDP_DROP;
    }
    flood::next_captured(&context)
        .and_then(|()| source::interface())
        .map_or(XDP_ABORTED, redirect)
}

#[inline(always)]
fn put_on_the_wire(context: &XdpContext) -> Option<u32> {
    let draw = source::draw(context)?;
    source::write_checksum(context, draw)?;
    Some(redirect(draw.interface))
}

#[inline(always)]
fn redirect(interface: u32) -> u32 {
    // SAFETY: takes no pointers.
    unsafe { bpf_redirect(interface, 0) as u32 }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The helpers of these programs are open to any licence; the kernel asks for one that it knows.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
