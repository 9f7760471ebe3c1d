//! Reading headers.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    Cursor,
    features::{self, Feature},
    parse::{
        Inner, Tunnels,
        ipv6::{self, Walk},
        transport::UpperLayer,
        tunnel::INNER_OFFSET_MAX,
    },
};

use super::unknown;
use crate::{constant::Constant, frame, interface};

/// Which tunnels are looked into: the number of [`Tunnels`]. The verifier knows it, so that none costs nothing.
#[unsafe(no_mangle)]
static TUNNELS: Constant<u64> = Constant::new(Tunnels::NONE.number());

/// Whether any tunnel is looked into.
#[inline(always)]
fn looks_inside() -> bool {
    features::is_enabled::<{ Feature::Tunnels as u8 }>() && TUNNELS.get() != 0
}

/// [`Tunnels::inner`] of the packet of `context`.
#[inline(always)]
pub fn inner(context: *mut xdp_md) -> Inner {
    if !looks_inside() {
        return Inner::NONE;
    }
    Inner::from_number(unknown(find_inner(context)) as u32)
}

/// The inside of a packet that was found before, by its number.
#[inline(always)]
pub(super) fn found_inner(number: u64) -> Inner {
    if !looks_inside() {
        return Inner::NONE;
    }
    Inner::from_number(number as u32)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_inner(context: *mut xdp_md) -> u64 {
    let packet = XdpContext::new(context);
    let (frame, is_copied) = frame::again(&packet);
    let inner = Tunnels::from_number(TUNNELS.get()).inner(
        frame,
        interface::link_layer(),
        |cursor, first| walk(context, cursor, first),
        |upper| frame::within(is_copied, upper),
    );
    inner.number().into()
}

/// [`ipv6::walk`].
#[inline(always)]
pub fn walk(context: *mut xdp_md, cursor: Cursor<'_>, first: u8) -> Walk {
    let answer = unknown(walk_extensions(
        context,
        cursor.offset().into(),
        first.into(),
    ));
    Walk {
        upper: UpperLayer::from_bits(answer as u32),
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
    u64::from(walk.upper.to_bits()) | if walk.is_complete { COMPLETE } else { 0 }
}

/// An IPv6 header ends at most so far behind the front of a frame, as the verifier wants to see.
pub(super) const FIXED_HEADERS_MAX: u16 = INNER_OFFSET_MAX + ipv6::HEADER_BYTES;

/// Whether all extension headers were looked through, above the upper layer.
const COMPLETE: u64 = 1 << 32;
