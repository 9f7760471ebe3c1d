//! Reading headers.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    ClassSet, Cursor, Instant,
    charge::outcome::Outcome,
    classify::{self, Classified},
    parse::{
        ipv6::{self, Walk},
        transport::{Fragment, UpperLayer},
    },
};

use super::unknown;
use crate::{frame, tables::KernelTables};

/// [`ipv6::walk`].
#[inline(always)]
pub fn walk(context: *mut xdp_md, cursor: Cursor<'_>, first: u8) -> Walk {
    let answer = unknown(walk_extensions(
        context,
        cursor.offset().into(),
        first.into(),
    ));
    Walk {
        upper: unpack_upper(answer),
        is_complete: answer & COMPLETE != 0,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_extensions(context: *mut xdp_md, offset: u64, first: u64) -> u64 {
    let context = XdpContext::new(context);
    let (mut cursor, _) = frame::again(&context);
    cursor.skip(offset as u16 & FIXED_HEADERS_MAX);
    let walk = ipv6::walk(cursor, first as u8);
    pack_upper(walk.upper) | if walk.is_complete { COMPLETE } else { 0 }
}

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

/// An IPv6 header ends at most so far behind the front of a frame, as the verifier wants to see.
const FIXED_HEADERS_MAX: u16 = 127;

/// Whether all extension headers were looked through, above the upper layer.
const COMPLETE: u64 = 1 << 32;

/// Whether headers are asked for, likewise.
const ASKS_HEADERS: u64 = 1 << 33;

/// Where the index of a policy stands, likewise.
const POLICY_SHIFT: u32 = 40;

/// An upper layer: offset, protocol, fragment.
#[inline(always)]
pub(super) fn pack_upper(upper: UpperLayer) -> u64 {
    u64::from(upper.offset) | u64::from(upper.protocol) << 16 | (upper.fragment as u64) << 24
}

#[inline(always)]
pub(super) fn unpack_upper(answer: u64) -> UpperLayer {
    UpperLayer {
        offset: answer as u16,
        protocol: (answer >> 16) as u8,
        fragment: Fragment::from_number(answer as u32 >> 24),
    }
}
