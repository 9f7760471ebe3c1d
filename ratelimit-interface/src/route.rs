//! Where this host sends packets to an address (rtnetlink, `RTM_GETROUTE`).

use std::net::IpAddr;

use anyhow::{Context, bail};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType},
};

use super::dump::exchange;

/// What becomes of packets to an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// They are for this host.
    Here,
    /// They leave by a route that is not for everything.
    Routed,
    /// They leave by the route for everything that no other is for.
    Default,
    /// There is no route.
    Nowhere,
}

/// The way of packets to an address.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn way_to(address: IpAddr) -> anyhow::Result<Way> {
    let mut question = RouteMessage::default();
    let (family, bits, destination) = match address {
        IpAddr::V4(address) => (AddressFamily::Inet, 32, RouteAddress::Inet(address)),
        IpAddr::V6(address) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(address)),
    };
    question.header.address_family = family;
    question.header.destination_prefix_length = bits;
    // The entry of the table, and not what was looked up.
    question.header.flags = RouteFlags::FibMatch;
    let destination = RouteAttribute::Destination(destination);
    question.attributes.push(destination);
    ask(question).with_context(|| format!("asking the kernel for the route to {address}"))
}

fn ask(question: RouteMessage) -> anyhow::Result<Way> {
    match exchange(RouteNetlinkMessage::GetRoute(question))? {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => Ok(way(&route)),
        NetlinkPayload::Error(error) if is_nowhere(-error.raw_code()) => Ok(Way::Nowhere),
        NetlinkPayload::Error(error) => Err(error.to_io().into()),
        other => bail!("an unexpected answer: {other:?}"),
    }
}

fn way(route: &RouteMessage) -> Way {
    match route.header.kind {
        RouteType::Local | RouteType::Broadcast | RouteType::Multicast | RouteType::Anycast => {
            Way::Here
        }
        RouteType::Unicast if route.header.destination_prefix_length == 0 => Way::Default,
        RouteType::Unicast => Way::Routed,
        _ => Way::Nowhere,
    }
}

/// What the kernel answers where there is no route, or one that refuses: `unreachable`, `prohibit`, `blackhole`.
fn is_nowhere(code: i32) -> bool {
    [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::EACCES,
        libc::EINVAL,
    ]
    .contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_the_address_that_every_host_has() {
        let loopback = "127.0.0.1".parse().unwrap();
        assert_eq!(way_to(loopback).unwrap(), Way::Here);
    }
}
