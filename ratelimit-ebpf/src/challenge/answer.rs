//! Overwrites the question with the answer: a SYN-ACK with a cookie, or a DNS answer with TC set.

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_TX},
    helpers::bpf_xdp_adjust_tail,
};
use ratelimit_common::{
    Cursor, Instant,
    challenge::{
        answer::{self, Front},
        cookie::{self, Message},
        options::{self, Kind, Request, Written},
        query,
    },
    parse::transport::OFFSET_MAX,
};

use super::MapChallenge;
use crate::{
    clock,
    first::first,
    frame::{self, Context},
    headers::{self, FIXED_HEADERS_MAX},
    interface,
    maps::{CHALLENGE, OF_CPU},
    settings::settings,
};

/// Writes the answer over the question, and sends it back.
#[inline(always)]
pub fn answer(context: *mut Context) -> u32 {
    let action = answer_question(context);
    if action == XDP_TX {
        return action;
    }
    answer_query(context)
}

subprograms! {
    /// [`options::write`] into the frame of `context`.
    pub fn write_options(context: *mut Context, request: Request, now: Instant) -> Option<Written> {
        let request = Request {
            from: request.from & OFFSET_MAX,
            ..request
        };
        let bounds = frame::bounds(context);
        // SAFETY: the bounds of the packet; no reference to it exists while it is written.
        let front = unsafe { Front::from_raw(bounds.start, bounds.end) };
        let rules = CHALLENGE.get().of(settings().generation());
        let listener = rules.listener_options();
        let find = |kind| find_option(context, request.from, request.bytes, kind);
        options::write(frame::whole(context), &front, request, listener, find, now)
    }

    /// [`options::find`] so far behind the front of the frame.
    fn find_option(context: *mut Context, from: u16, bytes: u16, kind: Kind) -> u16 {
        let mut start = frame::whole(context);
        start.skip(from & OFFSET_MAX);
        options::find(start, bytes, kind)
    }

    /// [`cookie::hash`] of the words of a message with the key of this host. In registers, as the
    /// message has no room on the stack of its caller.
    pub fn hash_cookie(first: u64, second: u64, third: u64, fourth: u64, last: u64) -> u32 {
        cookie::hash(super::key(), &Message([first, second, third, fourth, last]))
    }

    /// [`query::question_bytes`] of the packet of `context`.
    pub fn question_bytes(context: *mut Context) -> Option<u16> {
        let (frame, _) = frame::reread(context);
        let name_bytes = |cursor: Cursor<'_>| name_bytes(context, cursor.offset());
        query::question_bytes(frame, interface::link_layer(), name_bytes)
    }

    /// [`query::name_bytes`] so far behind the front of the frame.
    fn name_bytes(context: *mut Context, offset: u16) -> Option<u16> {
        let (mut cursor, _) = frame::reread(context);
        cursor.skip(offset & FIXED_HEADERS_MAX);
        query::name_bytes(cursor)
    }

    /// [`answer::sum`] of `bytes` bytes at an offset of the frame.
    fn sum(context: *mut Context, offset: u16, bytes: u16) -> u32 {
        let (mut cursor, _) = frame::reread(context);
        cursor.skip(offset & FIXED_HEADERS_MAX);
        answer::sum(cursor, bytes).unwrap_or(0)
    }

    fn answer_question(context: *mut Context) -> u32 {
        let Some(cpu_state) = first(&OF_CPU) else {
            return XDP_DROP;
        };
        let settings = settings();
        // SAFETY: a live map value of this CPU; no other reference to it exists.
        let now = unsafe { clock::now(settings, cpu_state) };
        // SAFETY: it was found in the map.
        let state = unsafe { MapChallenge::new(settings, context, cpu_state) };
        let bounds = frame::bounds(context);
        let frame = frame::whole(context);
        // SAFETY: the bounds of the packet; no reference to it exists while it is written.
        let front = unsafe { Front::from_raw(bounds.start, bounds.end) };
        let walk = |cursor, first| headers::walk(context, cursor, first);
        let written = answer::write(
            frame,
            &front,
            interface::link_layer(),
            walk,
            &state,
            now,
        );
        match written {
            Some(bytes) => send_back(context, bytes),
            None => XDP_DROP,
        }
    }

    fn answer_query(context: *mut Context) -> u32 {
        let bounds = frame::bounds(context);
        // SAFETY: the bounds of the packet; no reference to it exists while it is written.
        let front = unsafe { Front::from_raw(bounds.start, bounds.end) };
        let written = answer::write_query(
            frame::whole(context),
            &front,
            interface::link_layer(),
            |_, _| question_bytes(context),
            |cursor, bytes| Some(sum(context, cursor.offset(), bytes)),
        );
        match written {
            Some(bytes) => send_back(context, bytes),
            None => XDP_DROP,
        }
    }
}

/// Cuts a frame to the written bytes, and sends it back.
#[inline(always)]
fn send_back(context: *mut Context, bytes: u16) -> u32 {
    let excess = frame::bytes(context).wrapping_sub(u32::from(bytes).max(FRAME_BYTES_MIN)) as i32;
    if excess > 0 {
        // SAFETY: the helper changes the frame of the context. If it refuses, the rest is padding.
        unsafe { bpf_xdp_adjust_tail(context.cast(), excess.wrapping_neg()) };
    }
    XDP_TX
}

/// The minimum length of an Ethernet frame, without the checksum.
const FRAME_BYTES_MIN: u32 = 60;
