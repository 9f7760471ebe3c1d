//! Reading headers again, in subprograms of their own.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    Cursor,
    features::{self, Feature},
    parse::{
        Inner, Tunnels,
        ipv6::{self, Walk},
        tunnel::INNER_OFFSET_MAX,
    },
};

use crate::{constant::Constant, frame, interface};

/// Which tunnels are looked into: the number of [`Tunnels`]. The verifier knows it, so that none
/// costs nothing.
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
    find_inner(context)
}

/// The inner packet that was found before.
#[inline(always)]
pub fn found_inner(inner: Inner) -> Inner {
    if !looks_inside() {
        return Inner::NONE;
    }
    inner
}

subprogram! {
    fn find_inner(context: *mut xdp_md) -> Inner {
        let packet = XdpContext::new(context);
        let (frame, is_copied) = frame::again(&packet);
        Tunnels::from_number(TUNNELS.get()).inner(
            frame,
            interface::link_layer(),
            |cursor, first| walk(context, cursor, first),
            |upper| frame::within(is_copied, upper),
        )
    }
}

/// [`ipv6::walk`].
#[inline(always)]
pub fn walk(context: *mut xdp_md, cursor: Cursor<'_>, first: u8) -> Walk {
    walk_extensions(context, cursor.offset(), first)
}

subprogram! {
    fn walk_extensions(context: *mut xdp_md, offset: u16, first: u8) -> Walk {
        let context = XdpContext::new(context);
        let (mut cursor, _) = frame::again(&context);
        cursor.skip(offset & FIXED_HEADERS_MAX);
        ipv6::walk(cursor, first)
    }
}

/// An IPv6 header ends at most so far behind the front of a frame, as the verifier wants to see.
pub const FIXED_HEADERS_MAX: u16 = INNER_OFFSET_MAX + ipv6::HEADER_BYTES;
