//! The classes of a packet.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    ClassSet, Instant,
    charge::outcome::Outcome,
    classify::{self, Classified},
    parse::{Inner, transport::UpperLayer},
};

use super::{
    headers::{inner, pack_upper, unpack_upper},
    unknown,
};
use crate::{frame, tables::KernelTables};

/// Whether headers are asked for, above the upper layer.
const ASKS_HEADERS: u64 = 1 << 33;

/// Where the index of a policy stands, likewise.
const POLICY_SHIFT: u32 = 40;

/// [`classify::classify`].
#[inline(always)]
pub fn classify(
    context: *mut xdp_md,
    upper: UpperLayer,
    asks_headers: bool,
    policy: u32,
) -> Classified {
    let asks = if asks_headers { ASKS_HEADERS } else { 0 };
    let question = pack_upper(upper) | asks | u64::from(policy) << POLICY_SHIFT;
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
    ClassSet::from_bits(unknown(classify_outer(context, pack_upper(upper) | asks)) as u32)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_outer(context: *mut xdp_md, question: u64) -> u64 {
    let tables = KernelTables::without_settings(context, Instant::default());
    let packet = XdpContext::new(context);
    let (frame, is_copied) = frame::again(&packet);
    let upper = frame::within(is_copied, unpack_upper(question));
    let asks_headers = question & ASKS_HEADERS != 0;
    classify::classes(frame, upper, asks_headers, &tables)
        .bits()
        .into()
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_packet(context: *mut xdp_md, question: u64) -> u64 {
    let asks_headers = question & ASKS_HEADERS != 0;
    let tables = KernelTables::without_settings(context, Instant::default());
    let tables = tables.with_inner(if asks_headers {
        inner(context)
    } else {
        Inner::NONE
    });
    let packet = XdpContext::new(context);
    let (frame, is_copied) = frame::again(&packet);
    let upper = frame::within(is_copied, unpack_upper(question));
    let policy = (question >> POLICY_SHIFT) as u32;
    let classified = classify::classify(frame, upper, asks_headers, policy, &tables);
    u64::from(classified.classes.bits()) | u64::from(classified.outcome.to_bits()) << 32
}
