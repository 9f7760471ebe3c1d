//! The contenders of live traffic, each on its own veth pair.
//!
//! All have the same limit and room for the same number of sources. A passed packet finds no route,
//! whichever contender passed it.

use std::path::Path;

use anyhow::{Context, Result};
use aya::{
    Ebpf, EbpfLoader,
    programs::{Xdp, xdp::XdpMode},
};
use ratelimit_common::layout::SOURCES_DEFAULT;
use ratelimit_tests::{Lab, lab::INTERFACE};

use super::xdp_firewall::{self, Rule};
use crate::{
    catalog::ROOMY,
    harness,
    installation::Installation,
    scenario::{NewSources, Scenario},
    store::Store,
    traffic::Sources,
};

/// The address of the near interface, to which the frames are sent.
const NEAR_MAC: &str = "02:00:00:00:00:02";
/// The counters of IP for packets received before all hooks, and for those without a route, behind
/// the first hook.
const RECEIVED_BY_IP: &str = "InReceives";
const WITHOUT_ROUTE: &str = "InAddrErrors";
/// The programs of the others.
pub const PROGRAMS: [&str; 2] = ["nft", "iptables"];

/// The limit per source that all enforce.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// One packet per hour: every packet of a source except the first exceeds it.
    Narrow,
    /// A million packets a second: none is.
    Wide,
}

/// The kind of contender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// An XDP program that drops every packet: the most that can be had.
    EmptyDrop,
    /// The same after a look at the source: the most that a limiter by source can have.
    DropAfterALook,
    /// No limiter at all: the most that packets which pass can have.
    NoLimiter,
    /// This limiter.
    Ratelimit(Store),
    /// This limiter with `lru`, which drops packets over a small budget for new sources.
    NewSources,
    /// This limiter with `lru` in generic mode.
    Generic,
    /// This limiter with `lru` at TCX.
    Tcx,
    /// A dynamic set of nftables at ingress, the earliest of its hooks.
    Nftables,
    /// The match `hashlimit` of iptables in the table `raw`, the earliest of its hooks.
    Hashlimit,
    /// XDP-Firewall with a limit of packets per second, its only window. It blocks sources over the
    /// limit for an hour.
    XdpFirewall,
    /// The same without blocking: each source has its packet in every second.
    XdpFirewallUnblocked,
}

/// A contender on its veth pair.
pub struct Contender {
    kind: Kind,
    loaded: Loaded,
    lab: Lab,
}

/// The resources of a contender, besides those in its namespace.
enum Loaded {
    Drop { _program: Ebpf },
    XdpFirewall { _program: Ebpf },
    Ratelimit(Box<Installation>),
    Rules,
}

impl Kind {
    /// Returns the contenders for a limit. The first one is the reference.
    pub fn all(limit: Limit, sources: Sources) -> Vec<Self> {
        let firsts = match limit {
            Limit::Narrow => &[Self::EmptyDrop, Self::DropAfterALook][..],
            Limit::Wide => &[Self::NoLimiter],
        };
        let budgeted = match sources {
            Sources::Flood => &[Self::NoLimiter, Self::NewSources][..],
            _ => &[],
        };
        let stores = Store::ALL.map(Self::Ratelimit);
        // In a flood it blocks no source.
        let unblocked = match (limit, sources) {
            (Limit::Wide, _) | (_, Sources::Flood) => &[][..],
            _ => &[Self::XdpFirewallUnblocked],
        };
        [
            firsts,
            &stores,
            &[Self::Generic, Self::Tcx],
            budgeted,
            &[Self::Nftables, Self::Hashlimit, Self::XdpFirewall],
            unblocked,
        ]
        .concat()
    }

    /// Whether the machine may lack it.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Nftables | Self::Hashlimit) || self.is_xdp_firewall()
    }

    /// Whether it needs a checkout of XDP-Firewall.
    pub const fn is_xdp_firewall(self) -> bool {
        matches!(self, Self::XdpFirewall | Self::XdpFirewallUnblocked)
    }

    /// Its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::EmptyDrop => "empty drop",
            Self::DropAfterALook => "drop after a look",
            Self::Ratelimit(Store::Lru) => "ratelimit lru",
            Self::Ratelimit(Store::Compact) => "ratelimit compact",
            Self::NewSources => "ratelimit lru, drops new",
            Self::Generic => "ratelimit lru, generic",
            Self::Tcx => "ratelimit lru, tcx",
            Self::NoLimiter => "no limiter",
            Self::Nftables => "nftables",
            Self::Hashlimit => "iptables hashlimit",
            Self::XdpFirewall => "XDP-Firewall",
            Self::XdpFirewallUnblocked => "XDP-Firewall, no blocks",
        }
    }
}

impl Contender {
    /// Sets it up.
    pub fn new(
        kind: Kind,
        limit: Limit,
        sources: Sources,
        object: &[u8],
        checkout: Option<&Path>,
    ) -> Result<Self> {
        let capacity = capacity(sources);
        let lab = Lab::new()?;
        lab.near
            .ip(&["link", "set", INTERFACE, "address", NEAR_MAC])?;
        let loaded = match kind {
            Kind::EmptyDrop => drop_all(&lab, object, "drop"),
            Kind::DropAfterALook => drop_all(&lab, object, "drop_after_a_look"),
            Kind::NoLimiter => receive_without_xdp(&lab).map(|()| Loaded::Rules),
            Kind::Ratelimit(store) => {
                let scenario = scenario(store, limit, capacity, new_sources(sources));
                ratelimit(&lab, &scenario)
            }
            Kind::Generic | Kind::Tcx => {
                receive_without_xdp(&lab)?;
                let scenario = scenario(Store::Lru, limit, capacity, new_sources(sources));
                let mode = if kind == Kind::Tcx { "tcx" } else { "generic" };
                ratelimit(&lab, &scenario.mode(mode))
            }
            Kind::NewSources => {
                let scenario = scenario(Store::Lru, limit, capacity, NewSources::Few);
                ratelimit(&lab, &scenario)
            }
            Kind::Nftables => nftables(&lab, limit, capacity),
            Kind::Hashlimit => hashlimit(&lab, limit, capacity),
            Kind::XdpFirewall => xdp_firewall(&lab, checkout, limit, HOUR, capacity),
            Kind::XdpFirewallUnblocked => xdp_firewall(&lab, checkout, limit, 0, capacity),
        };
        loaded.map(|loaded| Self { kind, loaded, lab })
    }

    /// The kind of contender.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The lab with its interfaces.
    pub const fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns how many packets it has dropped, for any reason. `None` if it drops all and
    /// counts none. The others have no counter of all drops: a full table drops in another way than
    /// the rule. So passed packets are counted.
    pub fn dropped(&self) -> Result<Option<u64>> {
        let counter = match (self.kind, &self.loaded) {
            (_, Loaded::Drop { .. }) => return Ok(None),
            (_, Loaded::Ratelimit(installation)) => return installation.dropped().map(Some),
            // Its hook is behind that counter. In a flood, IP drops packets with invalid sources
            // after it.
            (Kind::Hashlimit, Loaded::Rules) => WITHOUT_ROUTE,
            (_, Loaded::Rules | Loaded::XdpFirewall { .. }) => RECEIVED_BY_IP,
        };
        let statistics = self.lab.near.run("cat", &["/proc/net/snmp"])?;
        let received = self.lab.near.received()?.packets;
        Ok(Some(
            received.saturating_sub(ip_counter(&statistics, counter)?),
        ))
    }
}

/// The time for which XDP-Firewall blocks sources over the limit, in seconds.
const HOUR: u16 = 3600;

const TABLE: &str = "bench";
const CHAIN: &str = "ingress";

/// Sources that each of them has room for: as many as by default, but where a million send.
fn capacity(sources: Sources) -> u32 {
    match sources {
        Sources::Million => ROOMY,
        _ => SOURCES_DEFAULT,
    }
}

/// The budget for new sources that this limiter has.
const fn new_sources(sources: Sources) -> NewSources {
    match sources {
        Sources::Flood => NewSources::Default,
        _ => NewSources::Ample,
    }
}

fn ratelimit(lab: &Lab, scenario: &Scenario) -> Result<Loaded> {
    let installation = Installation::new(lab, scenario)?;
    Ok(Loaded::Ratelimit(Box::new(installation)))
}

fn scenario(store: Store, limit: Limit, capacity: u32, new_sources: NewSources) -> Scenario {
    let amount = match limit {
        Limit::Narrow => "packets = 1, per = \"1h\"",
        Limit::Wide => "packets = 1_000_000, per = \"1s\"",
    };
    let limits = format!("{{ {amount}, algorithm = \"token-bucket\" }}");
    let toml = format!("[policy.default]\nlimits = [{limits}]");
    let scenario = Scenario::new(store, "live", toml).capacity(capacity);
    scenario.new_sources(new_sources)
}

fn drop_all(lab: &Lab, object: &[u8], name: &str) -> Result<Loaded> {
    let mut ebpf = EbpfLoader::new()
        .load(object)
        .context("reading the harness")?;
    let program = harness::xdp(&mut ebpf, name)?;
    program
        .load()
        .with_context(|| format!("loading `{name}`"))?;
    attach(lab, program).with_context(|| format!("attaching `{name}`"))?;
    Ok(Loaded::Drop { _program: ebpf })
}

fn xdp_firewall(
    lab: &Lab,
    checkout: Option<&Path>,
    limit: Limit,
    block_seconds: u16,
    capacity: u32,
) -> Result<Loaded> {
    let checkout = checkout.context("no checkout is named")?;
    let packets = match limit {
        Limit::Narrow => 2,
        Limit::Wide => 1_000_001,
    };
    let rule = Rule {
        packets,
        block_seconds,
    };
    let mut ebpf = xdp_firewall::load(checkout, rule, capacity)?;
    attach(lab, xdp_firewall::program(&mut ebpf)?).context("attaching XDP-Firewall")?;
    Ok(Loaded::XdpFirewall { _program: ebpf })
}

/// To the near interface, in native mode.
fn attach(lab: &Lab, program: &mut Xdp) -> Result<()> {
    lab.near
        .enter(|| program.attach(INTERFACE, XdpMode::Driver))?;
    Ok(())
}

fn nftables(lab: &Lab, limit: Limit, capacity: u32) -> Result<Loaded> {
    receive_without_xdp(lab)?;
    let set = format!("{{ type ipv4_addr; size {capacity}; flags dynamic,timeout; timeout 1h; }}");
    let hook = format!("{{ type filter hook ingress device {INTERFACE} priority 0; }}");
    let rate = match limit {
        Limit::Narrow => "1/hour burst 1",
        Limit::Wide => "1000000/second burst 1000000",
    };
    let limit = format!("add @seen {{ ip saddr limit rate over {rate} packets }}");
    let ruleset = [
        format!("add table netdev {TABLE}"),
        format!("add set netdev {TABLE} seen {set}"),
        format!("add chain netdev {TABLE} {CHAIN} {hook}"),
        format!("add rule netdev {TABLE} {CHAIN} {limit} drop"),
    ]
    .join("; ");
    lab.near.run("nft", &[&ruleset])?;
    Ok(Loaded::Rules)
}

fn hashlimit(lab: &Lab, limit: Limit, capacity: u32) -> Result<Loaded> {
    receive_without_xdp(lab)?;
    let capacity = capacity.to_string();
    let place = [
        "-t",
        "raw",
        "-A",
        "PREROUTING",
        "-j",
        "DROP",
        "-m",
        "hashlimit",
    ];
    let table = ["--hashlimit-name", TABLE, "--hashlimit-mode", "srcip"];
    let (above, burst) = match limit {
        Limit::Narrow => ("1/hour", "1"),
        Limit::Wide => ("1000000/second", "1000000"),
    };
    let rate = ["--hashlimit-above", above, "--hashlimit-burst", burst];
    let room = [
        "--hashlimit-htable-size",
        &capacity,
        "--hashlimit-htable-max",
        &capacity,
    ];
    let expire = ["--hashlimit-htable-expire", "3600000"];
    let arguments = [&place[..], &table, &rate, &room, &expire].concat();
    lab.near.run("iptables", &arguments)?;
    Ok(Loaded::Rules)
}

/// A veth interface takes frames from XDP only with a program of its own or with GRO.
fn receive_without_xdp(lab: &Lab) -> Result<()> {
    lab.near
        .run("ethtool", &["-K", INTERFACE, "gro", "on"])
        .map(drop)
}

/// A counter of IP, by its name in the first of the two lines that begin with `Ip:`.
fn ip_counter(statistics: &str, name: &str) -> Result<u64> {
    let mut lines = statistics
        .lines()
        .filter_map(|line| line.strip_prefix("Ip:"))
        .map(str::split_whitespace);
    let place = lines
        .next()
        .and_then(|mut names| names.position(|found| found == name));
    let mut numbers = lines.next();
    let number = place.and_then(|place| numbers.as_mut()?.nth(place)?.parse().ok());
    number.with_context(|| format!("no counter {name} is shown: {statistics}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_ip_is_found_by_its_name() {
        let snmp = "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors\n\
                    Ip: 2 64 1234 0 56\n\
                    Icmp: InMsgs\n";
        assert_eq!(ip_counter(snmp, RECEIVED_BY_IP).unwrap(), 1234);
        assert_eq!(ip_counter(snmp, WITHOUT_ROUTE).unwrap(), 56);
        assert!(ip_counter(snmp, "InMsgs").is_err() && ip_counter("", WITHOUT_ROUTE).is_err());
    }
}
