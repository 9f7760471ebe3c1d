//! Strikes, the bans that they lead to, and whether a source has a connection.

use core::ptr;

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    Cursor, Instant, Ipv4, Ipv6, Policy, detection,
    parse::{Connection, Wanted},
    sample::Socket,
    strikes::Strike,
};

use super::{Subprograms, inner, nullable, on_stack, unknown, walk};
use crate::{connection, frame, interface::link_layer, strikes, tables::KernelTables};

/// [`detection::count`].
#[inline(always)]
pub fn strike<A: Subprograms>(source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
    let (policy, at_ns) = (nullable(policy), strike.at.as_nanos());
    unknown((A::COUNT_STRIKE)(
        source,
        policy,
        at_ns,
        pack_strike(strike),
    )) != 0
}

/// [`BanRule::confirm`](ratelimit_common::BanRule::confirm) by the rule of `policy`.
#[inline(always)]
pub fn confirm_strike<A: Subprograms>(
    source: &A,
    policy: &Policy,
    strike: &Strike<'_>,
    is_connected: bool,
) -> bool {
    let packet = pack_strike(strike) | CONFIRM | u64::from(is_connected) << CONNECTED_SHIFT;
    unknown((A::COUNT_STRIKE)(
        source,
        policy,
        strike.at.as_nanos(),
        packet,
    )) != 0
}

/// [`detection::detect`].
#[inline(always)]
pub fn detect<A: Subprograms>(
    context: *mut xdp_md,
    source: &A,
    policy: Option<&Policy>,
    strike: &Strike<'_>,
) {
    let (policy, at_ns) = (nullable(policy), strike.at.as_nanos());
    (A::DETECT)(context, source, policy, at_ns, pack_strike(strike));
}

/// Whether the packet of `context` is one of a connection with this host.
#[inline(always)]
pub fn is_connected<A: Subprograms>(context: *mut xdp_md) -> bool {
    socket::<A>(context, Wanted::Segment) == Socket::Connected
}

/// The socket that this host has for the packet of `context`, if it is `wanted` and of this family.
#[inline(always)]
pub fn socket<A: Subprograms>(context: *mut xdp_md, wanted: Wanted) -> Socket {
    let number = unknown((A::FIND_SOCKET)(context, wanted as u64));
    Socket::from_number(number as u32)
}

macro_rules! of_family {
    ($address:ty, $count_strike:ident, $detect_source:ident, $find_socket:ident, $connection_of:expr) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $count_strike(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            let (source, strike) = (on_stack(source), unpack_strike(at_ns, packet));
            if packet & CONFIRM != 0 {
                let is_connected = packet >> CONNECTED_SHIFT != 0;
                let rule = policy.and_then(Policy::ban);
                return rule
                    .is_some_and(|rule| strikes::confirm(&source, rule, is_connected, strike.at))
                    .into();
            }
            detection::count(
                &source,
                policy,
                &strike,
                &KernelTables::without_settings(ptr::null_mut(), strike.at),
            )
            .into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $detect_source(
            context: *mut xdp_md,
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            let strike = unpack_strike(at_ns, packet);
            let tables = KernelTables::without_settings(context, strike.at);
            detection::detect(source, policy, &strike, &tables);
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $find_socket(context: *mut xdp_md, wanted: u64) -> u64 {
            let wanted = Wanted::from_number(wanted as u32);
            let inner = inner(context);
            let xdp = XdpContext::new(context);
            let (frame, is_copied) = frame::again(&xdp);
            let connection: Option<Connection<$address>> =
                $connection_of(frame, inner, context, is_copied, wanted);
            let socket = connection.map_or(Socket::None, |connection| {
                connection::socket(context, &connection, wanted)
            });
            socket.number().into()
        }
    };
}

of_family!(
    Ipv4,
    count_strike_v4,
    detect_source_v4,
    find_socket_v4,
    |frame, inner, _, _, wanted| Connection::of_ipv4(frame, link_layer(), inner, wanted)
);
of_family!(
    Ipv6,
    count_strike_v6,
    detect_source_v6,
    find_socket_v6,
    |frame, inner, context, is_copied, wanted| {
        Connection::of_ipv6(
            frame,
            link_layer(),
            inner,
            wanted,
            |cursor, first| walk(context, cursor, first),
            |upper| frame::within(is_copied, upper),
        )
    }
);

/// What follows a strike in its argument: that it is to be confirmed, and whether its connection was found.
const CONFIRM: u64 = 1 << 9;
const CONNECTED_SHIFT: u32 = 10;

/// A strike, all but its time: the limit, and whether it may lead to a ban.
#[inline(always)]
fn pack_strike(strike: &Strike<'_>) -> u64 {
    u64::from(strike.may_ban) << 8 | u64::from(strike.limit)
}

#[inline(always)]
fn unpack_strike(at_ns: u64, packet: u64) -> Strike<'static> {
    Strike {
        at: Instant::from_nanos(at_ns),
        // Who needs the frame reads it from the context.
        frame: Cursor::new(&[]),
        limit: packet as u8,
        may_ban: packet >> 8 & 1 != 0,
    }
}
