//! Strikes, the bans that they lead to, and whether a source has a connection.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    Cursor, Instant, Ipv4, Ipv6, Policy,
    parse::Connection,
    strikes::{self, Strike},
};

use super::{nullable, on_stack, unknown, walk};
use crate::{connection, frame, tables::KernelTables};

/// The strikes of an address family.
macro_rules! of_strikes {
    ($address:ty, $strike:ident = $count_strike:ident, $detect:ident = $detect_source:ident, $is_connected:ident = $find_connection:ident = $read:expr) => {
        /// [`FamilyTables::count_strike`](ratelimit_common::tables::FamilyTables::count_strike), by the rule of a policy.
        #[inline(always)]
        pub fn $strike(source: &$address, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
            let at_ns = strike.at.as_nanos();
            unknown($count_strike(
                source,
                nullable(policy),
                at_ns,
                pack_strike(strike),
            )) != 0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $count_strike(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            let strike = unpack_strike(at_ns, packet);
            strikes::count(
                &on_stack(source),
                policy,
                &strike,
                &KernelTables::at(strike.at),
            )
            .into()
        }

        /// [`strikes::detect`].
        #[inline(always)]
        pub fn $detect(
            context: *mut xdp_md,
            source: &$address,
            policy: Option<&Policy>,
            strike: &Strike<'_>,
        ) {
            let at_ns = strike.at.as_nanos();
            $detect_source(
                context,
                source,
                nullable(policy),
                at_ns,
                pack_strike(strike),
            );
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $detect_source(
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
            strikes::detect(
                &on_stack(source),
                policy,
                &strike,
                &KernelTables::new(context, strike.at),
            );
            0
        }

        /// Whether the packet of `context` is one of a connection with this host.
        #[inline(always)]
        pub fn $is_connected(context: *mut xdp_md) -> bool {
            unknown($find_connection(context)) != 0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $find_connection(context: *mut xdp_md) -> u64 {
            let xdp = XdpContext::new(context);
            let connection: Option<Connection<$address>> = $read(frame::cursor(&xdp, 0), context);
            let is_completed =
                connection.is_some_and(|connection| connection::is_completed(context, &connection));
            is_completed.into()
        }
    };
}

of_strikes!(
    Ipv4,
    strike_v4 = count_strike_v4,
    detect_v4 = detect_source_v4,
    is_connected_v4 = find_connection_v4 = |frame, _| Connection::of_ipv4(frame)
);
of_strikes!(
    Ipv6,
    strike_v6 = count_strike_v6,
    detect_v6 = detect_source_v6,
    is_connected_v6 = find_connection_v6 = |frame, context| {
        Connection::of_ipv6(frame, |cursor, first| walk(context, cursor, first))
    }
);

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
        may_ban: packet >> 8 != 0,
    }
}
