//! Routes of this host (rtnetlink, `RTM_GETROUTE`), and which prefixes are its own or behind it.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]

use std::net::IpAddr;

use anyhow::{Context, bail};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType},
};

use super::{
    address,
    dump::{dump, exchange},
};

/// The route of packets to an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// They are for this host.
    Here,
    /// They leave by a route that is not for everything.
    Routed,
    /// They leave by the route for everything that no other is for.
    Default,
    /// There is no route.
    Nowhere,
}

/// The prefixes of packets that are destined for this host.
pub struct Routes {
    /// The addresses of this host.
    own: Vec<IpAddr>,
}

impl Routes {
    /// Reads the current routes.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be queried.
    pub fn read() -> anyhow::Result<Self> {
        let own = address::own()?.into_iter();
        let own = own.map(|(address, _)| address).collect();
        Ok(Self { own })
    }

    /// Whether packets to some address of a prefix belong here: to an address of this host, or to a
    /// route that is not the default route. `first` is the first address of the prefix, and
    /// `covers` tests the others.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be queried.
    pub fn lead_into(
        &self,
        first: IpAddr,
        covers: impl Fn(IpAddr) -> bool,
    ) -> anyhow::Result<bool> {
        let belongs = |way| matches!(way, Way::Here | Way::Routed);
        if belongs(way_to(first)?) || self.own.iter().any(|own| covers(*own)) {
            return Ok(true);
        }
        // A part of it may be routed.
        let mut found = false;
        let mut all = RouteMessage::default();
        all.header.address_family = match first {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        dump(RouteNetlinkMessage::GetRoute(all), |answer| {
            if let RouteNetlinkMessage::NewRoute(route) = answer {
                found |= belongs(way(&route)) && destination(&route).is_some_and(&covers);
            }
        })
        .context("asking the kernel for routes")?;
        Ok(found)
    }
}

/// The first address that a route is for.
fn destination(route: &RouteMessage) -> Option<IpAddr> {
    let mut attributes = route.attributes.iter();
    attributes.find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some((*address).into()),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

/// The way of packets to an address.
fn way_to(address: IpAddr) -> anyhow::Result<Way> {
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

/// Whether the error means no route, or one that refuses: `unreachable`, `prohibit`, `blackhole`.
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
        let routes = Routes::read().unwrap();
        assert!(routes.own.contains(&loopback));
        assert!(routes.lead_into(loopback, |it| it == loopback).unwrap());
    }
}
