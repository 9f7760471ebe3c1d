//! Sources that prove themselves.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    Cursor, Instant, Ipv4, Ipv6, Settings,
    challenge::{
        self, InSegment as _, Outcome, Place, Shared,
        answer::{self, ListenerCookie},
        cookie::{self, Message},
        options::{self, Kind, Request, Written},
        query,
    },
    generation::Generation,
    list::Listed,
    parse::{
        Inner,
        transport::{OFFSET_MAX, UpperLayer},
    },
};

use super::{Subprograms, classes, headers, on_stack, unknown};
use crate::{
    challenge::MapChallenge,
    first::First as _,
    frame, interface,
    listener::{self, Question},
    maps::OF_CPU,
    settings::settings,
};

/// [`challenge::judge`] of the packet of `context`.
#[inline(always)]
pub fn judge_challenge<A: Subprograms>(
    context: *mut xdp_md,
    source: &A,
    upper: UpperLayer,
    listed: Listed,
    settings: Settings,
    now: Instant,
) -> Outcome {
    let question = u64::from(upper.to_bits())
        | (settings.generation() as u64) << GENERATION_SHIFT
        | u64::from(listed.is_protected()) << PROTECTED_SHIFT
        | u64::from(settings.prefers_verified()) << PREFERS_SHIFT;
    Outcome::from_number(unknown((A::CHALLENGE)(
        context,
        source,
        question,
        now.as_nanos(),
    )))
}

/// [`challenge::is_unproved`] of the packet of `context`.
#[inline(always)]
pub fn is_unproved<A: Subprograms>(context: *mut xdp_md, source: &A, now: Instant) -> bool {
    unknown((A::IS_UNPROVED)(context, source, now.as_nanos())) != 0
}

/// Above the upper layer.
const GENERATION_SHIFT: u32 = 32;
const PROTECTED_SHIFT: u32 = 33;
const PREFERS_SHIFT: u32 = 34;

#[inline(always)]
fn generation(number: u64) -> Generation {
    match number & 1 {
        0 => Generation::First,
        _ => Generation::Second,
    }
}

macro_rules! of_families {
    ($($address:ty, $subprogram:ident, $is_unproved:ident;)+) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $is_unproved(
            context: *mut xdp_md,
            source: *const $address,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let Some(source) = (unsafe { source.as_ref() }) else {
                return 0;
            };
            let settings = settings();
            let Some(of_cpu) = OF_CPU.first_ptr() else {
                return 0;
            };
            if headers::inner(context) != Inner::NONE {
                return 0;
            }
            let packet = XdpContext::new(context);
            let (frame, is_copied) = frame::again(&packet);
            if is_copied {
                return 0;
            }
            let walk = |cursor: Cursor<'_>, first| headers::walk(context, cursor, first);
            let Some(upper) = <$address>::upper(frame, interface::link_layer(), walk) else {
                return 0;
            };
            // SAFETY: it was found in the map.
            let state = unsafe { MapChallenge::new(settings, context, of_cpu) };
            challenge::is_unproved(
                &on_stack(source),
                frame,
                interface::link_layer(),
                upper,
                |asks_headers| classes::classes(context, upper, asks_headers),
                Instant::from_nanos(at_ns),
                &state,
            )
            .into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            context: *mut xdp_md,
            source: *const $address,
            question: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let Some(source) = (unsafe { source.as_ref() }) else {
                return 0;
            };
            if question >> PROTECTED_SHIFT & 1 != 0 {
                return 0;
            }
            let now = Instant::from_nanos(at_ns);
            let mut settings =
                Settings::default().in_generation(generation(question >> GENERATION_SHIFT));
            if question >> PREFERS_SHIFT & 1 != 0 {
                settings = settings.preferring_verified();
            }
            let Some(of_cpu) = OF_CPU.first_ptr() else {
                return 0;
            };
            // SAFETY: it was found in the map.
            let state = unsafe { MapChallenge::new(settings, context, of_cpu) };
            let source = on_stack(source);
            // Nobody is answered inside of a tunnel.
            if headers::inner(context) != Inner::NONE {
                return challenge::standing(&source, now, &state) as u64;
            }
            let packet = XdpContext::new(context);
            let (frame, is_copied) = frame::again(&packet);
            let upper = UpperLayer::from_bits(question as u32);
            // What is a copy cannot be answered where it lies. The compiler must not make one value of a segment and none: of that the
            // verifier sees places on the stack that nobody has written.
            if !is_copied
                && let Some(segment) = <$address>::segment(frame, interface::link_layer(), upper)
            {
                let classes = |asks_headers| classes::classes(context, upper, asks_headers);
                return challenge::judge(&source, &segment, classes, now, &state) as u64;
            }
            if !is_copied
                && let Some(port) = query::port(frame, upper)
            {
                let is_query = || question_bytes(context).is_some();
                return challenge::judge_datagram(&source, port, is_query, now, &state) as u64;
            }
            challenge::standing(&source, now, &state) as u64
        }
    )+};
}

of_families!(
    Ipv4, challenge_source_v4, is_unproved_v4;
    Ipv6, challenge_source_v6, is_unproved_v6;
);

/// [`crate::challenge::take`].
#[inline(always)]
pub fn take_of_challenge(which: Shared, generation: Generation, now: Instant) -> bool {
    unknown(take_of_challenge_budget(
        which as u64,
        generation as u64,
        now.as_nanos(),
    )) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_of_challenge_budget(which: u64, of: u64, at_ns: u64) -> u64 {
    crate::challenge::take(which as usize, Instant::from_nanos(at_ns), generation(of)).into()
}

/// [`cookie::hash`] with the key of this host.
#[inline(always)]
pub fn cookie(message: &Message) -> u32 {
    unknown(hash_cookie(message)) as u32
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hash_cookie(message: *const Message) -> u64 {
    // SAFETY: the verifier holds callers to memory of this type, or null.
    match unsafe { message.as_ref() } {
        Some(message) => cookie::hash(crate::challenge::key(), message).into(),
        None => 0,
    }
}

/// [`query::question_bytes`] of the packet of `context`.
#[inline(always)]
pub fn question_bytes(context: *mut xdp_md) -> Option<u16> {
    let bytes = unknown(walk_question(context)) as u16;
    if bytes == 0 { None } else { Some(bytes) }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_question(context: *mut xdp_md) -> u64 {
    let packet = XdpContext::new(context);
    let (frame, _) = frame::again(&packet);
    let name_bytes = |cursor: Cursor<'_>| name_bytes(context, cursor.offset());
    query::question_bytes(frame, interface::link_layer(), name_bytes).map_or(0, u64::from)
}

/// [`query::name_bytes`] so far behind the front of the frame.
#[inline(always)]
fn name_bytes(context: *mut xdp_md, offset: u16) -> Option<u16> {
    let bytes = unknown(walk_name(context, offset.into())) as u16;
    if bytes == 0 { None } else { Some(bytes) }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_name(context: *mut xdp_md, offset: u64) -> u64 {
    let packet = XdpContext::new(context);
    let (mut cursor, _) = frame::again(&packet);
    cursor.skip(offset as u16 & headers::FIXED_HEADERS_MAX);
    query::name_bytes(cursor).map_or(0, u64::from)
}

/// [`answer::sum`] of so many bytes so far behind the front of the frame.
#[inline(always)]
pub fn sum(context: *mut xdp_md, offset: u16, bytes: u16) -> u32 {
    unknown(sum_words(context, offset.into(), bytes.into())) as u32
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sum_words(context: *mut xdp_md, offset: u64, bytes: u64) -> u64 {
    let packet = XdpContext::new(context);
    let (mut cursor, _) = frame::again(&packet);
    cursor.skip(offset as u16 & headers::FIXED_HEADERS_MAX);
    answer::sum(cursor, bytes as u16).map_or(0, u64::from)
}

/// The cookie of the listener of the SYN in this place.
#[inline(always)]
pub fn cookie_of_listener(
    context: *mut xdp_md,
    place: Place,
    is_ipv6: bool,
) -> Option<ListenerCookie> {
    listener::cookie(unknown(ask_for_cookie(context, pack_place(place, is_ipv6))))
}

/// [`crate::challenge::write_options`].
#[inline(always)]
pub fn write_options(context: *mut xdp_md, request: Request, now: Instant) -> Option<Written> {
    let words = u64::from(request.from)
        | u64::from(request.bytes) << 16
        | u64::from(request.to) << 32
        | u64::from(request.segment_bytes) << 48;
    let written = unknown(write_options_of_answer(context, words, now.as_nanos()));
    if written == 0 {
        return None;
    }
    Some(Written {
        bytes: (written >> 32) as u16,
        sum: written as u32,
    })
}

/// [`options::find`] so far behind the front of the frame.
#[inline(always)]
pub fn find_option(context: *mut xdp_md, from: u16, bytes: u16, [kind, length]: Kind) -> u16 {
    let words =
        u64::from(from) | u64::from(bytes) << 16 | u64::from(kind) << 32 | u64::from(length) << 40;
    unknown(find_option_of_syn(context, words)) as u16
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_option_of_syn(context: *mut xdp_md, words: u64) -> u64 {
    let packet = XdpContext::new(context);
    let mut start = frame::whole(&packet);
    start.skip(words as u16 & OFFSET_MAX);
    let kind = [(words >> 32) as u8, (words >> 40) as u8];
    options::find(start, (words >> 16) as u16, kind).into()
}

/// Above the bytes and the sum of options: they are written.
const WRITTEN: u64 = 1 << 63;

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn write_options_of_answer(context: *mut xdp_md, words: u64, at_ns: u64) -> u64 {
    let request = Request {
        from: words as u16 & OFFSET_MAX,
        bytes: (words >> 16) as u16,
        to: (words >> 32) as u16,
        segment_bytes: (words >> 48) as u16,
    };
    match crate::challenge::write_options(context, request, Instant::from_nanos(at_ns)) {
        Some(written) => WRITTEN | u64::from(written.bytes) << 32 | u64::from(written.sum),
        None => 0,
    }
}

/// Whether the segment in this place acknowledges a cookie of its listener.
#[inline(always)]
pub fn acknowledges_listener(context: *mut xdp_md, place: Place, is_ipv6: bool) -> bool {
    unknown(ask_for_acknowledgement(context, pack_place(place, is_ipv6))) != 0
}

const SEGMENT_SHIFT: u32 = 16;
const IPV6_SHIFT: u32 = 32;

#[inline(always)]
fn pack_place(place: Place, is_ipv6: bool) -> u64 {
    u64::from(place.packet)
        | u64::from(place.segment) << SEGMENT_SHIFT
        | u64::from(is_ipv6) << IPV6_SHIFT
}

#[inline(always)]
fn ask(context: *mut xdp_md, place: u64, question: Question) -> u64 {
    let is_ipv6 = place >> IPV6_SHIFT & 1 != 0;
    let place = Place {
        packet: place as u16,
        segment: (place >> SEGMENT_SHIFT) as u16,
    };
    listener::ask(context, place, is_ipv6, question)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn ask_for_cookie(context: *mut xdp_md, place: u64) -> u64 {
    ask(context, place, Question::Cookie)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn ask_for_acknowledgement(context: *mut xdp_md, place: u64) -> u64 {
    ask(context, place, Question::IsAcknowledged)
}
