//! The program, whose entry points are in `xdp.rs` and `tcx.rs`: it fetches the packet, the time
//! and the tables for [`decide`], and acts on the result.
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
#[cfg(not(feature = "tcx"))]
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
#[cfg(feature = "tcx")]
mod tcx;
mod variable;
#[cfg(not(feature = "tcx"))]
mod xdp;

use first::first;
use frame::Context;
use maps::OF_CPU;
use ratelimit_common::{Cursor, PassReason, Verdict, decide};
use settings::settings;
use tables::KernelTables;

/// Judges the packet of `context`, which `frame` reads.
#[inline(always)]
fn judge<'a>(context: *mut Context, frame: impl FnOnce() -> Cursor<'a>) -> Verdict {
    let settings = settings();
    let inner = headers::inner(context, settings.generation());
    let settings = interface::settings(settings);
    let Some(cpu_state) = first(&OF_CPU) else {
        // The verifier asks for it: each CPU has one.
        return Verdict::Pass(PassReason::Unlimited);
    };
    samples::offer(context, settings);
    // SAFETY: a live map value of this CPU; no other reference to it exists.
    let now = unsafe { clock::now(settings, cpu_state) };
    // After the calls: a pointer into the packet is kept for no longer than it has to be.
    let frame = frame();
    let tables = KernelTables::new(context, now, settings)
        .with_inner(inner)
        .with_of_cpu(cpu_state);
    decide(frame, now, &tables)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The helpers of this program are open to any licence; the kernel asks for one that it knows.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
