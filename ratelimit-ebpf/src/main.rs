//! The XDP program: it fetches the packet, the time and the tables for [`decide`], and acts on the
//! result.
//!
//! This crate contains no policy; `ratelimit-common` decides about packets.
#![no_std]
#![no_main]
#![expect(
    internal_features,
    reason = "the BPF target has no stable atomics, see `atomic.rs`"
)]
#![feature(asm_experimental_arch, core_intrinsics)]

#[macro_use]
mod subprogram;

mod atomic;
mod capture;
mod challenge;
mod classify;
mod clock;
mod compact;
mod connection;
mod constant;
mod ends;
mod events;
mod first;
mod frame;
mod headers;
mod interface;
mod interruption;
mod leases;
mod limit_words;
mod limits;
mod listener;
mod lists;
mod lru;
mod map_words;
mod maps;
mod neighbour_discovery;
mod new_sources;
mod next;
mod node;
mod policy_ban;
mod refused;
mod samples;
mod settings;
mod single;
mod steps;
mod strikes;
mod tables;
mod variable;

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS},
    macros::xdp,
    programs::XdpContext,
};
use first::first;
use maps::{NEXT, NEXT_FRAGS, Next, OF_CPU};
use ratelimit_common::{Cursor, DropReason, Verdict, decide};
use settings::settings;
use tables::KernelTables;

/// Judges one packet, which is in one buffer.
#[xdp]
#[inline(always)]
pub fn ratelimit(context: XdpContext) -> u32 {
    judge(&context, frame::whole, &NEXT)
}

/// Judges one packet of an interface with jumbo frames: of one that takes several buffers, the
/// first is readable, and holds the headers, or the front is copied.
#[xdp(frags)]
#[inline(always)]
pub fn ratelimit_frags(context: XdpContext) -> u32 {
    let frame_bytes = frame::bytes(context.ctx);
    frame::copy_short(&context, frame_bytes);
    judge(
        &context,
        |context| frame::cursor(context, frame_bytes),
        &NEXT_FRAGS,
    )
}

#[inline(always)]
fn judge<'a>(
    context: &'a XdpContext,
    frame: impl FnOnce(&'a XdpContext) -> Cursor<'a>,
    next: &Next,
) -> u32 {
    let settings = settings();
    let inner = headers::inner(context.ctx, settings.generation());
    let settings = interface::settings(settings);
    let Some(of_cpu) = first(&OF_CPU) else {
        // The verifier asks for it: each CPU has one.
        return XDP_PASS;
    };
    samples::offer(context.ctx, settings);
    // SAFETY: a live map value of this CPU; no other reference to it exists.
    let now = unsafe { clock::now(settings, of_cpu) };
    // After the calls: a pointer into the packet is kept for no longer than it has to be.
    let frame = frame(context);
    let tables = KernelTables::new(context.ctx, now, settings)
        .with_inner(inner)
        .with_of_cpu(of_cpu);
    match decide(frame, now, &tables) {
        Verdict::Pass(_) | Verdict::Observe(_) => {
            next::call(context, next);
            XDP_PASS
        }
        Verdict::Drop(DropReason::Challenged) if settings.has_challenge() => {
            challenge::answer(context.ctx)
        }
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
