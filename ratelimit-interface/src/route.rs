//! Where this host sends packets to an address (rtnetlink, `RTM_GETROUTE`), and which addresses are its own.

use std::net::IpAddr;

use anyhow::{Context, bail};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::dump::dump;

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

/// The addresses of this host.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn own_addresses() -> anyhow::Result<Vec<IpAddr>> {
    let mut own = Vec::new();
    let all = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    dump(all, |answer| {
        if let RouteNetlinkMessage::NewAddress(message) = answer {
            let attributes = message.attributes.into_iter();
            own.extend(attributes.filter_map(|attribute| match attribute {
                AddressAttribute::Local(address) | AddressAttribute::Address(address) => {
                    Some(address)
                }
                _ => None,
            }));
        }
    })
    .context("asking the kernel for addresses")?;
    Ok(own)
}

fn ask(question: RouteMessage) -> anyhow::Result<Way> {
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::GetRoute(question));
    message.header.flags = NLM_F_REQUEST;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let (reply, _) = socket.recv_from_full()?;
    match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply)?.payload {
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
        assert!(own_addresses().unwrap().contains(&loopback));
    }
}
