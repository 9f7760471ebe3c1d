//! The XDP program: it fetches the packet, the time and the tables for [`decide`], and acts on the answer.
//!
//! There is no policy in this crate; what a packet deserves is decided in `ratelimit-common`.
#![no_std]
#![no_main]
#![expect(
    internal_features,
    reason = "the BPF target has no stable atomics, see `atomic.rs`"
)]
#![feature(asm_experimental_arch, core_intrinsics)]

mod atomic;
mod capture;
mod clock;
mod compact;
mod connection;
mod constant;
mod detected;
mod events;
mod frame;
mod interruption;
mod lists;
mod maps;
mod new_sources;
mod refused;
mod samples;
mod state;
mod steps;
mod strikes;
mod subprograms;
mod tables;

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS},
    macros::xdp,
    programs::XdpContext,
};
use ratelimit_common::{Verdict, decide};
use tables::{KernelTables, settings};

/// Judges one packet, all of which is readable.
#[xdp]
pub fn ratelimit(context: XdpContext) -> u32 {
    let frame_bytes = context.data_end().wrapping_sub(context.data()) as u32;
    judge(&context, frame_bytes)
}

/// Judges one packet of an interface with jumbo frames: of one that takes several buffers, the first is readable, and holds the
/// headers, or the front is copied.
#[xdp(frags)]
pub fn ratelimit_frags(context: XdpContext) -> u32 {
    let frame_bytes = frame::bytes(context.ctx);
    frame::copy_short(&context, frame_bytes);
    judge(&context, frame_bytes)
}

#[inline(always)]
fn judge(context: &XdpContext, frame_bytes: u32) -> u32 {
    let settings = settings();
    samples::offer(context.ctx, settings);
    let now = clock::now(settings);
    let frame = frame::cursor(context, frame_bytes);
    let tables = KernelTables::new(context.ctx, now, settings);
    match decide(frame, now, &tables) {
        Verdict::Pass(_) | Verdict::Observe(_) => XDP_PASS,
        Verdict::Drop(_) => XDP_DROP,
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The helpers of this program are open to any licence; the kernel asks for one that it knows.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
