//! Copies dropped packets to user space while a capture runs.
//!
//! A packet that passes pays nothing, and a drop pays for reading one word.

use core::slice;

use aya_ebpf::cty::c_void;
use ratelimit_common::{
    DropReason, PassReason, Verdict,
    capture::{Capture, Head, SNAP_MAX, Tally},
    parse::{
        self, Payload, ipv4,
        ipv6::{self, Walk},
        transport::{Fragment, UpperLayer},
    },
};

use crate::{
    clock,
    first::first,
    frame::{self, Context},
    headers, interface,
    interruption::Claimed,
    maps::{CAPTURE, CAPTURE_ROOM, CAPTURE_TALLY, CAPTURED},
    settings::settings,
};

/// Copies the packet of `context` if it is dropped, or would be, and matches the capture.
///
/// It needs no state from before the decision, because the stack has no room for that.
#[inline(always)]
pub fn offer(context: *mut Context, verdict: Verdict) {
    if !matches!(verdict, Verdict::Pass(_)) && CAPTURE.get().is_wanted() {
        capture_packet(context, verdict.index() as u64);
    }
}

subprograms! {
    fn capture_packet(context: *mut Context, verdict: u64) {
        let number = verdict.wrapping_sub(PassReason::ALL.len() as u64);
        let observed = number >= DropReason::ALL.len() as u64;
        let number = if observed {
            number.wrapping_sub(DropReason::ALL.len() as u64)
        } else {
            number
        };
        let capture = CAPTURE.get();
        let (Some(tally), Some(reason)) = (
            CAPTURE_TALLY.get_ptr_mut(interface::slot()),
            DropReason::from_number(number as u8),
        ) else {
            return;
        };
        let at = clock::precise();
        if !capture.is_on(at) {
            return;
        }
        if !capture.has_reason(reason) || !has_source(context, capture) {
            return;
        }
        // SAFETY: the tally belongs to this CPU. Where programs interrupt each other, it may count
        // a packet too few.
        let tally = unsafe { &mut *tally };
        if tally.choose(capture, at) {
            let head = Head {
                at_ns: at.as_nanos(),
                frame_bytes: frame::bytes(context),
                kept_bytes: 0,
                interface: interface::slot(),
                reason: reason as u8,
                observed: observed.into(),
                link_layer: interface::link_layer().number() as u8,
                reserved: 0,
            };
            copy(context, head, capture.snap, tally);
        }
    }
}

/// Whether the packet of `context` has a source that is captured.
#[inline(always)]
fn has_source(context: *mut Context, capture: &Capture) -> bool {
    if capture.has_all_sources() {
        return true;
    }
    let inner = headers::inner(context, settings().generation());
    let (mut cursor, _) = frame::reread(context);
    match parse::network(&mut cursor, interface::link_layer(), inner) {
        Ok(Payload::Ipv4) => {
            ipv4::flow(&mut cursor).is_some_and(|flow| capture.has_source(flow.source))
        }
        Ok(Payload::Ipv6) => ipv6::flow(&mut cursor, |_, _| UNWALKED)
            .is_some_and(|flow| capture.has_source(flow.source)),
        Ok(Payload::Other) | Err(_) => false,
    }
}

/// The headers behind the IPv6 header do not matter here.
const UNWALKED: Walk = Walk {
    upper: UpperLayer::new(0, Fragment::Whole, 0),
    is_complete: false,
};

/// Sends the first bytes of the packet behind `head`.
#[inline(always)]
fn copy(context: *mut Context, mut head: Head, snap: u32, tally: &mut Tally) {
    let Some(owner) = first(&CAPTURE_ROOM) else {
        return;
    };
    // SAFETY: a live map value.
    let Some(room) = (unsafe { Claimed::claim(owner) }) else {
        tally.lost = tally.lost.wrapping_add(1);
        return;
    };
    // A frame has at least an Ethernet header. The mask is for the verifier, which is to see that
    // there is at least one byte, and room for all.
    let bytes = head.frame_bytes.min(snap).wrapping_sub(1) & (SNAP_MAX - 1);
    let bytes = bytes.wrapping_add(1);
    head.kept_bytes = bytes;
    // SAFETY: the room is claimed, and holds as many bytes as the mask lets through.
    let is_sent = unsafe {
        (*room).head = head;
        let place = (&raw mut (*room).bytes).cast::<c_void>();
        let is_read = frame::read(context, 0, place, bytes);
        let whole = slice::from_raw_parts(room.cast::<u8>(), size_of::<Head>() + bytes as usize);
        let is_sent = is_read && CAPTURED.output_untyped::<[u8]>(whole, 0).is_ok();
        Claimed::release(owner);
        is_sent
    };
    if is_sent {
        tally.sent = tally.sent.wrapping_add(1);
    } else {
        tally.lost = tally.lost.wrapping_add(1);
    }
}
