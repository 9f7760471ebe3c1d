//! Addresses that are protected from bans, because this host would be cut off without them or
//! because of the configuration, with reasons.
//!
//! They are found (`netlink.rs`, `resolvers.rs`, `sessions.rs`), kept current
//! (`tasks/protected.rs`), and consulted for each ban (`ban_vetting.rs`). A protected address is
//! not on the allow list: it is still limited. Only bans exempt it.

mod ban_vetting;
mod exempt;
pub(crate) mod netlink;
mod resolvers;
mod sessions;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ratelimit_core::prefix::Prefix;
use tracing::warn;

pub use self::ban_vetting::{Requester, widest_automatic};

/// The reason an address is protected.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Why {
    /// The host talks to itself.
    Loopback,
    /// It is an address of this host, on the interface of this name.
    Own(String),
    /// It is a default gateway, behind the interface of this name.
    Gateway(String),
    /// It answers names, says the file.
    Resolver(&'static str),
    /// A user is logged in from there.
    SshPeer,
    /// The service of this name answers there.
    Service(&'static str),
    /// Listed in `[protected]` of the configuration.
    Configured,
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => formatter.write_str("the loopback of this host"),
            Self::Own(interface) => write!(formatter, "the address of {interface} on this host"),
            Self::Gateway(interface) => write!(formatter, "the default gateway of {interface}"),
            Self::Resolver(file) => write!(formatter, "a resolver in {file}"),
            Self::SshPeer => formatter.write_str("the client of an SSH session"),
            Self::Service(name) => write!(formatter, "the server of {name}"),
            Self::Configured => formatter.write_str("protected by the configuration"),
        }
    }
}

/// The hosts of a network that are named.
const NEIGHBOURS_NAMED: usize = 5;

/// The protected addresses, and the networks that this host is connected to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Protected {
    reasons: BTreeMap<Prefix, BTreeSet<Why>>,
    networks: BTreeMap<Prefix, BTreeSet<String>>,
    neighbours: BTreeSet<IpAddr>,
}

impl Protected {
    /// Finds the addresses, routes, resolvers and sessions of this host. Errors are logged, and the
    /// rest is protected anyway.
    pub fn find() -> Self {
        let mut found = Self::loopback();
        let sources = [
            ("the addresses of this host", netlink::addresses()),
            ("the default gateways", netlink::gateways()),
            ("the resolvers", resolvers::find()),
            ("the sessions", sessions::find()),
        ];
        for (what, addresses) in sources {
            match addresses {
                Ok(addresses) => found.extend(addresses),
                Err(error) => warn!(
                    error = format!("{error:#}"),
                    "cannot read {what}; they are not protected"
                ),
            }
        }
        match netlink::networks() {
            Ok(networks) => networks
                .into_iter()
                .for_each(|(network, interface)| found.add_network(network, interface)),
            Err(error) => warn!(
                error = format!("{error:#}"),
                "cannot read the connected networks; lists do not exempt them"
            ),
        }
        // They are only named.
        found.add_neighbours(netlink::neighbours().unwrap_or_default());
        found
    }

    /// The loopback networks, which are the same everywhere.
    pub fn loopback() -> Self {
        let mut loopback = Self::default();
        let network = Prefix::around(Ipv4Addr::LOCALHOST.into(), 8);
        for prefix in network
            .into_iter()
            .chain([IpAddr::from(Ipv6Addr::LOCALHOST).into()])
        {
            loopback.add(prefix, Why::Loopback);
        }
        loopback
    }

    /// Protects a prefix. One address may have several reasons.
    pub fn add(&mut self, prefix: Prefix, why: Why) {
        self.reasons.entry(prefix).or_default().insert(why);
    }

    /// Protects addresses. Unspecified ones such as `0.0.0.0` in a routing table are skipped.
    pub fn extend(&mut self, addresses: impl IntoIterator<Item = (IpAddr, Why)>) {
        let addresses = addresses.into_iter();
        for (address, why) in addresses.filter(|(address, _)| !address.is_unspecified()) {
            self.add(address.to_canonical().into(), why);
        }
    }

    /// Records that this host has an address in `network`, on an interface. A single address is no
    /// network, and the loopback is protected as a whole.
    pub fn add_network(&mut self, network: Prefix, interface: String) {
        let is_loopback = network.address().is_loopback();
        if !network.is_address() && !network.is_empty() && !is_loopback {
            self.networks.entry(network).or_default().insert(interface);
        }
    }

    /// Notes hosts that this host has talked to on its networks.
    pub fn add_neighbours(&mut self, neighbours: impl IntoIterator<Item = IpAddr>) {
        self.neighbours.extend(neighbours);
    }

    /// The networks that this host has an address in, in their order.
    pub fn networks(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.networks.keys().copied()
    }

    /// The connected networks that `prefix` covers.
    pub fn networks_in(&self, prefix: Prefix) -> impl Iterator<Item = Prefix> + '_ {
        let from_here = self.networks.range(prefix..);
        let networks = from_here.map(|(network, _)| *network);
        networks.take_while(move |network| prefix.covers(*network))
    }

    /// Describes a connected network: its interface and known hosts.
    pub fn describe_network(&self, network: Prefix) -> String {
        let interfaces = self.networks.get(&network).into_iter().flatten();
        let interfaces: Vec<&str> = interfaces.map(String::as_str).collect();
        let interfaces = interfaces.join(" and ");
        let neighbours = self.neighbours.iter();
        let hosts: Vec<String> = neighbours
            .filter(|host| network.covers((**host).into()))
            .map(IpAddr::to_string)
            .collect();
        let named = hosts[..hosts.len().min(NEIGHBOURS_NAMED)].join(", ");
        match (hosts.len(), hosts.len().saturating_sub(NEIGHBOURS_NAMED)) {
            (0, _) => format!("the network of {interfaces}, without known hosts so far"),
            (_, 0) => format!("the network of {interfaces} with {named}"),
            (_, more) => format!("the network of {interfaces} with {named} and {more} more hosts"),
        }
    }

    /// Whether the same is protected for the same reasons, and the same networks are connected.
    pub fn protects_as(&self, other: &Self) -> bool {
        (&self.reasons, &self.networks) == (&other.reasons, &other.networks)
    }

    /// Returns the protected prefixes with reasons, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, impl Iterator<Item = &Why>)> {
        let reasons = self.reasons.iter();
        reasons.map(|(prefix, reasons)| (*prefix, reasons.iter()))
    }

    /// The protected prefixes.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.reasons.keys().copied()
    }

    /// The addresses of this host.
    pub fn own_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let is_own = |reasons: &BTreeSet<Why>| reasons.iter().any(|why| matches!(why, Why::Own(_)));
        let own = self
            .reasons
            .iter()
            .filter(move |(_, reasons)| is_own(reasons));
        own.map(|(prefix, _)| prefix.address())
    }

    /// Whether this prefix is protected by its own name.
    pub fn contains(&self, prefix: Prefix) -> bool {
        self.reasons.contains_key(&prefix)
    }

    /// Returns the first protected prefix that overlaps `prefix`.
    pub fn met_by(&self, prefix: Prefix) -> Option<(Prefix, &Why)> {
        let meets = |own: &Prefix| prefix.covers(*own) || own.covers(prefix);
        let (own, reasons) = self.reasons.iter().find(|(own, _)| meets(own))?;
        Some((*own, reasons.first()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_finds_its_loopback_and_knows_why() {
        let found = Protected::find();
        let (prefix, why) = found.met_by("127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(
            format!("{prefix}: {why}"),
            "127.0.0.0/8: the loopback of this host"
        );
        assert!(found.contains("::1".parse().unwrap()));
    }

    #[test]
    fn an_address_may_have_several_reasons_and_stands_once() {
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let mut protected = Protected::default();
        protected.extend([
            (mapped, Why::SshPeer),
            (address, Why::Gateway("eth0".into())),
            (Ipv4Addr::UNSPECIFIED.into(), Why::SshPeer),
        ]);
        let all: Vec<String> = protected
            .iter()
            .map(|(prefix, reasons)| {
                let reasons: Vec<String> = reasons.map(Why::to_string).collect();
                format!("{prefix}: {}", reasons.join(", "))
            })
            .collect();
        assert_eq!(
            all,
            ["192.0.2.1: the default gateway of eth0, the client of an SSH session"]
        );
    }
}
