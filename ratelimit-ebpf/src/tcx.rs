//! The entry point at TCX: after GRO, where a merged frame counts for as many packets as it was
//! merged from.

use aya_ebpf::{
    bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC},
    macros::classifier,
    programs::TcContext,
};
use ratelimit_common::Verdict;

use crate::{frame, judge};

/// Judges one packet of any length.
#[classifier]
#[inline(always)]
pub fn ratelimit_tcx(context: TcContext) -> i32 {
    let packet = context.skb.skb;
    frame::copy_short(packet, frame::bytes(packet));
    match judge(packet, || frame::cursor(packet, frame::merged_size(packet))) {
        Verdict::Drop(_) => TC_ACT_SHOT,
        // The next program there, or the network stack.
        Verdict::Pass(_) | Verdict::Observe(_) => TC_ACT_UNSPEC,
    }
}
