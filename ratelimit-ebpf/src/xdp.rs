//! The entry points at XDP.

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS},
    macros::xdp,
    programs::XdpContext,
};
use ratelimit_common::{DropReason, Verdict};

use crate::{
    challenge, frame, judge,
    maps::{NEXT, NEXT_FRAGS, Next},
    next,
    settings::settings,
};

/// Judges one packet, which is in one buffer.
#[xdp]
#[inline(always)]
pub fn ratelimit(context: XdpContext) -> u32 {
    let packet = context.ctx;
    act(&context, judge(packet, || frame::whole(packet)), &NEXT)
}

/// Judges one packet of an interface with jumbo frames: of one that takes several buffers, the
/// first is readable, and holds the headers, or the front is copied.
#[xdp(frags)]
#[inline(always)]
pub fn ratelimit_frags(context: XdpContext) -> u32 {
    let packet = context.ctx;
    let frame_bytes = frame::bytes(packet);
    frame::copy_short(packet, frame_bytes);
    let verdict = judge(packet, || frame::cursor(packet, frame_bytes));
    act(&context, verdict, &NEXT_FRAGS)
}

#[inline(always)]
fn act(context: &XdpContext, verdict: Verdict, next: &Next) -> u32 {
    match verdict {
        Verdict::Pass(_) | Verdict::Observe(_) => {
            next::call(context, next);
            XDP_PASS
        }
        Verdict::Drop(DropReason::Challenged) if settings().has_challenge() => {
            challenge::answer(context.ctx)
        }
        Verdict::Drop(_) => XDP_DROP,
    }
}
