//! Sends samples of packets to user space, while the settings request them.

use aya_ebpf::{bindings::BPF_RB_NO_WAKEUP, cty::c_void, helpers::bpf_get_prandom_u32};
use ratelimit_common::{
    Ipv4, Ipv6, Settings,
    parse::{Inner, LinkLayer, Wanted},
    sample::{FRONT_BYTES, Front, Socket},
};

use crate::{
    clock, connection,
    first::first,
    frame::{self, Context},
    headers, interface,
    maps::{COUNTDOWN, SAMPLES},
    settings::settings,
};

/// Counts a packet, and sends its front if it is its turn.
///
/// It comes first, when there is nothing yet that would have to outlive it on the stack, which has
/// no room.
#[inline(always)]
pub fn offer(context: *mut Context, settings: Settings) {
    // Attacks that a dry run sees would be answered on the other interfaces.
    if settings.has_samples() && !settings.observes_here() {
        sample_packet(context);
    }
}

subprograms! {
    fn sample_packet(context: *mut Context) {
        let Some(countdown) = first(&COUNTDOWN) else {
            return;
        };
        // SAFETY: it belongs to this CPU. If programs can interrupt each other, a sample may
        // represent a few packets too many or too few.
        let countdown = unsafe { &mut *countdown };
        let Some(packets) = countdown.count() else {
            return;
        };
        let now = clock::precise();
        // SAFETY: the helper takes nothing and cannot fail.
        countdown.choose(now.as_nanos(), unsafe { bpf_get_prandom_u32() });
        // Each looks only at packets of its family. This comes before the entry, because the
        // verifier allows no call while one is held.
        let socket = socket(context).number();
        let inner = headers::inner(context, settings().generation());
        let Some(mut entry) = SAMPLES.reserve_untyped::<Front>(0) else {
            return;
        };
        let front = entry.as_mut_ptr();
        // SAFETY: the entry is this program's until it is submitted, and there is room for the
        // front of a packet.
        let is_read = unsafe {
            (*front).at_ns = now.as_nanos();
            (*front).packets = packets;
            (*front).socket = socket;
            (*front).link_layer = link_layer(inner).number();
            (*front).frame_bytes = frame_bytes(context, inner);
            read_front(
                context,
                inner,
                (*front).frame_bytes,
                (&raw mut (*front).bytes).cast(),
            )
        };
        // User space looks from time to time.
        if is_read {
            countdown.sent();
            entry.submit(BPF_RB_NO_WAKEUP.into());
        } else {
            entry.discard(BPF_RB_NO_WAKEUP.into());
        }
    }
}

/// The first header of a sample: for a packet inside a tunnel, its own.
#[inline(always)]
pub fn link_layer(inner: Inner) -> LinkLayer {
    if inner.offset() == 0 {
        interface::link_layer()
    } else {
        LinkLayer::None
    }
}

/// The bytes of a frame from there on.
#[inline(always)]
pub fn frame_bytes(context: *mut Context, inner: Inner) -> u32 {
    frame::bytes(context).saturating_sub(inner.offset().into())
}

/// Reads the first bytes, and returns whether that succeeded.
///
/// # Safety
///
/// There is room for [`FRONT_BYTES`] at `place`.
#[inline(always)]
pub unsafe fn read_front(
    context: *mut Context,
    inner: Inner,
    bytes: u32,
    place: *mut c_void,
) -> bool {
    // A frame has at least an Ethernet header. The mask is for the verifier, which is to see that
    // there is at least one byte, and room for all.
    let bytes = bytes.min(FRONT_BYTES).wrapping_sub(1) & (FRONT_BYTES - 1);
    let offset = inner.offset().into();
    // SAFETY: the caller has room for as many bytes as the mask lets through.
    unsafe { frame::read(context, offset, place, bytes.wrapping_add(1)) }
}

/// The socket that this host has for a packet.
#[inline(always)]
fn socket(context: *mut Context) -> Socket {
    for wanted in [Wanted::Segment, Wanted::Datagram] {
        for socket in [
            connection::socket::<Ipv4>(context, wanted),
            connection::socket::<Ipv6>(context, wanted),
        ] {
            if socket != Socket::None {
                return socket;
            }
        }
    }
    Socket::None
}
