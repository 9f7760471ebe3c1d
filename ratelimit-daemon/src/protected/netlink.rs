//! The addresses and default gateways of this host, from the kernel (rtnetlink).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]

use std::{collections::BTreeMap, net::IpAddr};

use anyhow::Context;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::AddressAttribute,
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteVia},
};

use ratelimit_core::prefix::Prefix;

use super::Why;
use ratelimit_interface::{self as interface, address, dump};

/// The longest prefix of a route that counts as a default one: a VPN routes the two halves of all
/// addresses.
const DEFAULT_ROUTE_LENGTH: u8 = 1;

/// The addresses of every interface.
pub fn addresses() -> anyhow::Result<Vec<(IpAddr, Why)>> {
    let names = interface::names()?;
    let own = address::own()?.into_iter();
    Ok(own
        .map(|(own, index)| (own, Why::Own(name(&names, index))))
        .collect())
}

/// The networks that this host has an address in, each with the name of the interface.
pub fn networks() -> anyhow::Result<Vec<(Prefix, String)>> {
    let names = interface::names()?;
    let mut found = Vec::new();
    address::each(|message| {
        let network = network(&message.attributes, message.header.prefix_len);
        found.extend(network.map(|network| (network, name(&names, message.header.index))));
    })?;
    Ok(found)
}

/// The network of an address: that of the other end, on a point-to-point link.
fn network(attributes: &[AddressAttribute], length: u8) -> Option<Prefix> {
    let address = address::far(attributes).or_else(|| address::near(attributes));
    Prefix::around(address?, length)
}

/// The hosts that the kernel has sent to on a link, and that answered.
pub fn neighbours() -> anyhow::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = NeighbourMessage::default();
        request.header.family = family;
        dump(RouteNetlinkMessage::GetNeighbour(request), |answer| {
            if let RouteNetlinkMessage::NewNeighbour(message) = answer
                && has_answered(message.header.state)
            {
                found.extend(neighbour(&message.attributes));
            }
        })
        .context("asking the kernel for neighbours")?;
    }
    Ok(found)
}

/// Multicast and point-to-point links have neighbours that never answer, and others are only asked
/// for.
fn has_answered(state: NeighbourState) -> bool {
    use NeighbourState::{Delay, Permanent, Probe, Reachable, Stale};
    matches!(state, Reachable | Stale | Delay | Probe | Permanent)
}

fn neighbour(attributes: &[NeighbourAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => {
            Some(IpAddr::from(*address))
        }
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => {
            Some(IpAddr::from(*address))
        }
        _ => None,
    })
}

/// The gateways of the default routes of all tables.
pub fn gateways() -> anyhow::Result<Vec<(IpAddr, Why)>> {
    let names = interface::names()?;
    let mut found = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        dump(RouteNetlinkMessage::GetRoute(request), |answer| {
            if let RouteNetlinkMessage::NewRoute(route) = answer
                && is_default(&route)
            {
                found.extend(gateways_of(&route.attributes, &names));
            }
        })
        .context("asking the kernel for routes")?;
    }
    Ok(found)
}

/// Whether a message is about an address or a default route, which may change the protected
/// addresses.
pub fn is_relevant(message: &RouteNetlinkMessage) -> bool {
    match message {
        RouteNetlinkMessage::NewAddress(_) | RouteNetlinkMessage::DelAddress(_) => true,
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
            is_default(route)
        }
        _ => false,
    }
}

fn is_default(route: &RouteMessage) -> bool {
    route.header.destination_prefix_length <= DEFAULT_ROUTE_LENGTH
}

fn gateways_of(attributes: &[RouteAttribute], names: &BTreeMap<u32, String>) -> Vec<(IpAddr, Why)> {
    let interface = attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    let own = gateway(attributes).map(|gateway| (gateway, interface.unwrap_or_default()));
    let hops = attributes.iter().flat_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => hops.as_slice(),
        _ => &[],
    });
    let hops = hops.filter_map(|hop| Some((gateway(&hop.attributes)?, hop.interface_index)));
    own.into_iter()
        .chain(hops)
        .map(|(gateway, interface)| (gateway, Why::Gateway(name(names, interface))))
        .collect()
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address))
        | RouteAttribute::Via(RouteVia::Inet(address)) => Some(IpAddr::from(*address)),
        RouteAttribute::Gateway(RouteAddress::Inet6(address))
        | RouteAttribute::Via(RouteVia::Inet6(address)) => Some(IpAddr::from(*address)),
        _ => None,
    })
}

fn name(names: &BTreeMap<u32, String>, index: u32) -> String {
    let name = names.get(&index).cloned();
    name.unwrap_or_else(|| format!("interface {index}"))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use netlink_packet_route::route::RouteNextHop;

    use super::*;

    #[test]
    fn the_loopback_interface_has_its_addresses() {
        let found = addresses().unwrap();
        let loopback = (Ipv4Addr::LOCALHOST.into(), Why::Own("lo".to_owned()));
        assert!(found.contains(&loopback), "{found:?}");
    }

    #[test]
    fn the_loopback_interface_has_its_network() {
        let found = networks().unwrap();
        let loopback = ("127.0.0.0/8".parse().unwrap(), "lo".to_owned());
        assert!(found.contains(&loopback), "{found:?}");
        neighbours().unwrap();
    }

    #[test]
    fn the_network_of_a_point_to_point_link_is_that_of_the_far_end() {
        let [near, far] = [[10, 0, 0, 1], [192, 0, 2, 7]].map(IpAddr::from);
        let both = [
            AddressAttribute::Local(near),
            AddressAttribute::Address(far),
        ];
        let named = |network: Option<Prefix>| network.unwrap().to_string();
        assert_eq!(named(network(&both, 24)), "192.0.2.0/24");
        assert_eq!(named(network(&both[..1], 24)), "10.0.0.0/24");
    }

    #[test]
    fn each_hop_of_a_route_with_several_is_a_gateway() {
        let hop = |last: u8, interface_index| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = interface_index;
            let gateway = Ipv4Addr::new(192, 0, 2, last);
            hop.attributes = vec![RouteAttribute::Gateway(RouteAddress::Inet(gateway))];
            hop
        };
        let names = BTreeMap::from([(1, "eth0".to_owned())]);
        let route = [RouteAttribute::MultiPath(vec![hop(1, 1), hop(2, 7)])];
        let expected = [([192, 0, 2, 1], "eth0"), ([192, 0, 2, 2], "interface 7")];
        let expected = expected.map(|(address, on)| (address.into(), Why::Gateway(on.to_owned())));
        assert_eq!(gateways_of(&route, &names), expected);
    }

    #[test]
    fn an_ipv4_route_may_go_through_an_ipv6_gateway() {
        let gateway = "fe80::1".parse().unwrap();
        let route = [
            RouteAttribute::Via(RouteVia::Inet6(gateway)),
            RouteAttribute::Oif(1),
        ];
        let names = BTreeMap::from([(1, "eth0".to_owned())]);
        assert_eq!(
            gateways_of(&route, &names),
            [(gateway.into(), Why::Gateway("eth0".to_owned()))]
        );
    }
}
