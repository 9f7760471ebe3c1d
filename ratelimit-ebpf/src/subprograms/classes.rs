//! The classes of a packet.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    ClassSet, Instant,
    charge::outcome::Outcome,
    classify::{self, Classified, Wanted},
    parse::{Inner, transport::UpperLayer},
};

use super::{
    headers::{found_inner, inner},
    unknown,
};
use crate::{frame, tables::KernelTables};

/// Whether headers are asked for, above the upper layer.
const ASKS_HEADERS: u64 = 1 << 33;

/// Whether it is asked where packets go to, likewise.
const ASKS_DESTINATION: u64 = 1 << 34;

/// Where the index of a policy stands, likewise.
const POLICY_SHIFT: u32 = 40;

/// [`classify::classify`].
#[inline(always)]
pub fn classify(
    context: *mut xdp_md,
    upper: UpperLayer,
    wanted: Wanted,
    policy: u32,
) -> Classified {
    let asks = |asks, flag| if asks { flag } else { 0 };
    let asks = asks(wanted.headers, ASKS_HEADERS) | asks(wanted.destination, ASKS_DESTINATION);
    let question = u64::from(upper.to_bits()) | asks | u64::from(policy) << POLICY_SHIFT;
    let answer = unknown(classify_packet(context, question));
    Classified {
        classes: ClassSet::from_bits(answer as u32),
        outcome: Outcome::from_bits((answer >> 32) as u32),
    }
}

/// [`classify::classes`] of a packet inside of which no other one is looked for: the chain of calls that asks for it has no stack for that.
#[inline(always)]
pub fn classes(context: *mut xdp_md, upper: UpperLayer, asks_headers: bool) -> ClassSet {
    let asks = if asks_headers { ASKS_HEADERS } else { 0 };
    ClassSet::from_bits(unknown(classify_outer(context, u64::from(upper.to_bits()) | asks)) as u32)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_outer(context: *mut xdp_md, question: u64) -> u64 {
    let tables = KernelTables::without_settings(context, Instant::default());
    let packet = XdpContext::new(context);
    let (frame, is_copied) = frame::again(&packet);
    let upper = frame::within(is_copied, UpperLayer::from_bits(question as u32));
    let wanted = Wanted::by_challenge(question & ASKS_HEADERS != 0);
    classify::classes(frame, upper, wanted, &tables)
        .bits()
        .into()
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_packet(context: *mut xdp_md, question: u64) -> u64 {
    let wanted = Wanted {
        headers: question & ASKS_HEADERS != 0,
        destination: question & ASKS_DESTINATION != 0,
    };
    let tables = KernelTables::without_settings(context, Instant::default());
    let tables = tables.with_inner(if wanted.headers {
        inner(context)
    } else {
        Inner::NONE
    });
    let packet = XdpContext::new(context);
    let (frame, is_copied) = frame::again(&packet);
    let upper = frame::within(is_copied, UpperLayer::from_bits(question as u32));
    let policy = (question >> POLICY_SHIFT) as u32;
    let classified = classify::classify(frame, upper, wanted, policy, &tables);
    u64::from(classified.classes.bits()) | u64::from(classified.outcome.to_bits()) << 32
}

/// [`classify::excluded_by_destination`] of the packet of `context`.
#[inline(always)]
pub fn excluded_by_destination(context: *mut xdp_md, inner: Inner) -> ClassSet {
    ClassSet::from_bits(unknown(classes_of_destination(context, inner.number().into())) as u32)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classes_of_destination(context: *mut xdp_md, inner: u64) -> u64 {
    let context = XdpContext::new(context);
    let (frame, _) = frame::again(&context);
    let tables = KernelTables::without_settings(context.ctx, Instant::default())
        .with_inner(found_inner(inner));
    classify::excluded_by_destination(frame, &tables)
        .bits()
        .into()
}
