//! The classes of a packet.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    ClassSet, Instant,
    charge::outcome::Outcome,
    classify::{self, Classified},
    parse::transport::UpperLayer,
};

use super::{
    headers::{pack_upper, unpack_upper},
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

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_packet(context: *mut xdp_md, question: u64) -> u64 {
    let context = XdpContext::new(context);
    let (frame, is_copied) = frame::again(&context);
    let tables = KernelTables::without_settings(context.ctx, Instant::default());
    let upper = frame::within(is_copied, unpack_upper(question));
    let asks_headers = question & ASKS_HEADERS != 0;
    let policy = (question >> POLICY_SHIFT) as u32;
    let classified = classify::classify(frame, upper, asks_headers, policy, &tables);
    u64::from(classified.classes.bits()) | u64::from(classified.outcome.to_bits()) << 32
}
