//! Reading headers again, in subprograms of their own.

use ratelimit_common::{
    Cursor,
    features::{self, Feature},
    generation::Generation,
    parse::{
        Inner,
        ipv6::{self, Walk},
        transport::UpperLayer,
        tunnel::INNER_OFFSET_MAX,
    },
};

use crate::{
    frame::{self, Context},
    interface,
    maps::TUNNELS,
};

#[inline(always)]
fn looks_inside() -> bool {
    features::is_enabled::<{ Feature::Tunnels as u8 }>()
}

/// [`Tunnels::inner`](ratelimit_common::parse::Tunnels::inner) of the packet of `context`, by the
/// tunnels of a generation.
#[inline(always)]
pub fn inner(context: *mut Context, generation: Generation) -> Inner {
    if !looks_inside() {
        return Inner::NONE;
    }
    find_inner(context, generation)
}

/// The inner packet that was found before.
#[inline(always)]
pub fn found_inner(inner: Inner) -> Inner {
    if !looks_inside() {
        return Inner::NONE;
    }
    inner
}

subprograms! {
    fn find_inner(context: *mut Context, generation: Generation) -> Inner {
        let (frame, is_copied) = frame::reread(context);
        TUNNELS.get().of(generation).inner(
            frame,
            interface::link_layer(),
            |cursor, first| walk(context, cursor, first),
            |upper| frame::within(is_copied, upper),
        )
    }
}

/// [`ipv6::walk`].
#[inline(always)]
pub fn walk(context: *mut Context, cursor: Cursor<'_>, first: u8) -> Walk {
    walk_extensions(context, cursor.offset(), first)
}

subprograms! {
    fn walk_extensions(context: *mut Context, offset: u16, first: u8) -> Walk {
        let (mut cursor, _) = frame::reread(context);
        cursor.skip(offset & FIXED_HEADERS_MAX);
        let mut walk = ipv6::walk(cursor, first);
        // The cursor does not know the length of the frame.
        let may_be_longer = features::is_enabled::<{ Feature::Frags as u8 }>();
        if may_be_longer && is_hidden(context, walk.upper) {
            walk.is_complete = false;
        }
        walk
    }

    /// [`Walk::is_hidden`].
    fn is_hidden(context: *mut Context, upper: UpperLayer) -> bool {
        let frame_bytes = frame::bytes(context);
        let readable = frame::readable(context, frame_bytes);
        Walk::is_hidden(upper, readable, frame_bytes)
    }
}

/// The largest offset of the end of an IPv6 header in a frame, which the verifier needs to know.
pub const FIXED_HEADERS_MAX: u16 = INNER_OFFSET_MAX + ipv6::HEADER_BYTES;
