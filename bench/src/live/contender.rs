//! Those that live traffic goes through, each on a veth pair of its own.
//!
//! The limit is the same for all: one packet an hour for each source. A packet that passes finds no route, whoever let it.

use anyhow::{Context, Result};
use aya::{Ebpf, EbpfLoader, programs::xdp::XdpMode};
use ratelimit_tests::{Lab, lab::INTERFACE};

use crate::{harness, installation::Installation, scenario::Scenario, store::Store};

/// The address of the near interface, to which the frames are sent.
const NEAR_MAC: &str = "02:00:00:00:00:02";
/// Sources that are remembered: as many as the others are told to.
const CAPACITY: u32 = 1_000_000;

/// Who it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// An XDP program that drops every packet: the most that can be had.
    EmptyDrop,
    /// The same after a look at the source: the most that a limiter by source can have.
    DropAfterALook,
    /// This limiter.
    Ratelimit(Store),
    /// A dynamic set of nftables at ingress, the earliest of its hooks.
    Nftables,
    /// The match `hashlimit` of iptables in the table `raw`, the earliest of its hooks.
    Hashlimit,
}

/// A contender on its veth pair.
pub struct Contender {
    kind: Kind,
    loaded: Loaded,
    lab: Lab,
}

/// What a contender holds, beside what goes with its namespace.
enum Loaded {
    Drop { _program: Ebpf },
    Ratelimit(Box<Installation>),
    Rules,
}

impl Kind {
    /// All of them, the empty drop first.
    pub fn all() -> Vec<Self> {
        let stores = Store::ALL.map(Self::Ratelimit);
        [
            &[Self::EmptyDrop, Self::DropAfterALook][..],
            &stores,
            &[Self::Nftables, Self::Hashlimit],
        ]
        .concat()
    }

    /// Whether the machine may lack it.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Nftables | Self::Hashlimit)
    }

    /// Its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::EmptyDrop => "empty drop",
            Self::DropAfterALook => "drop after a look",
            Self::Ratelimit(Store::Lru) => "ratelimit lru",
            Self::Ratelimit(Store::Compact) => "ratelimit compact",
            Self::Nftables => "nftables",
            Self::Hashlimit => "iptables hashlimit",
        }
    }
}

impl Contender {
    /// Sets it up.
    pub fn new(kind: Kind, object: &[u8]) -> Result<Self> {
        let lab = Lab::new()?;
        lab.near
            .ip(&["link", "set", INTERFACE, "address", NEAR_MAC])?;
        let loaded = match kind {
            Kind::EmptyDrop => drop_all(&lab, object, "drop"),
            Kind::DropAfterALook => drop_all(&lab, object, "drop_after_a_look"),
            Kind::Ratelimit(store) => Installation::new(&lab, &scenario(store))
                .map(|installation| Loaded::Ratelimit(Box::new(installation))),
            Kind::Nftables => nftables(&lab),
            Kind::Hashlimit => hashlimit(&lab),
        };
        loaded.map(|loaded| Self { kind, loaded, lab })
    }

    /// Who it is.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Where its interfaces are.
    pub const fn lab(&self) -> &Lab {
        &self.lab
    }

    /// How many packets it says that it has dropped; `None` when it drops all and counts none.
    pub fn dropped(&self) -> Result<Option<u64>> {
        match (self.kind, &self.loaded) {
            (_, Loaded::Drop { .. }) => Ok(None),
            (_, Loaded::Ratelimit(installation)) => Ok(Some(installation.packets("limited")?.0)),
            // `nft` would list the set with every counter. What it lets through is received by IP, and nothing else comes.
            (Kind::Nftables, Loaded::Rules) => {
                let received = self.lab.near.received()?.packets;
                let statistics = self.lab.near.run("cat", &["/proc/net/snmp"])?;
                Ok(Some(received.saturating_sub(in_receives(&statistics)?)))
            }
            (_, Loaded::Rules) => {
                let arguments = ["-t", "raw", "-vnxL", "PREROUTING"];
                number_before(&self.lab.near.run("iptables", &arguments)?, "DROP").map(Some)
            }
        }
    }
}

const TABLE: &str = "bench";
const CHAIN: &str = "ingress";

fn scenario(store: Store) -> Scenario {
    let limit = "{ packets = 1, per = \"1h\", algorithm = \"token-bucket\" }";
    let toml = format!("[policy.default]\nlimits = [{limit}]");
    Scenario::new(store, "live", toml).capacity(CAPACITY)
}

fn drop_all(lab: &Lab, object: &[u8], name: &str) -> Result<Loaded> {
    let mut ebpf = EbpfLoader::new()
        .load(object)
        .context("reading the harness")?;
    let program = harness::xdp(&mut ebpf, name)?;
    program
        .load()
        .with_context(|| format!("loading `{name}`"))?;
    lab.near
        .enter(|| program.attach(INTERFACE, XdpMode::Driver))
        .with_context(|| format!("attaching `{name}`"))?;
    Ok(Loaded::Drop { _program: ebpf })
}

fn nftables(lab: &Lab) -> Result<Loaded> {
    receive_without_xdp(lab)?;
    let set = format!("{{ type ipv4_addr; size {CAPACITY}; flags dynamic,timeout; timeout 1h; }}");
    let hook = format!("{{ type filter hook ingress device {INTERFACE} priority 0; }}");
    let limit = "add @seen { ip saddr limit rate over 1/hour burst 1 packets }";
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

fn hashlimit(lab: &Lab) -> Result<Loaded> {
    receive_without_xdp(lab)?;
    let capacity = CAPACITY.to_string();
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
    let limit = ["--hashlimit-name", TABLE, "--hashlimit-mode", "srcip"];
    let rate = ["--hashlimit-above", "1/hour", "--hashlimit-burst", "1"];
    let room = [
        "--hashlimit-htable-size",
        &capacity,
        "--hashlimit-htable-max",
        &capacity,
    ];
    let expire = ["--hashlimit-htable-expire", "3600000"];
    let arguments = [&place[..], &limit, &rate, &room, &expire].concat();
    lab.near.run("iptables", &arguments)?;
    Ok(Loaded::Rules)
}

/// A veth interface takes frames from XDP only with a program of its own or with GRO.
fn receive_without_xdp(lab: &Lab) -> Result<()> {
    lab.near
        .run("ethtool", &["-K", INTERFACE, "gro", "on"])
        .map(drop)
}

/// The packets that IP received: the third number of the second line that begins with `Ip:`, `InReceives`.
fn in_receives(statistics: &str) -> Result<u64> {
    let line = statistics
        .lines()
        .filter(|line| line.starts_with("Ip:"))
        .nth(1);
    number(
        line.and_then(|line| line.split_whitespace().nth(3)),
        statistics,
    )
}

/// The number that begins a line with `word`, as iptables writes its counters before the target.
fn number_before(text: &str, word: &str) -> Result<u64> {
    let line = text.lines().find(|line| line.contains(word));
    number(line.and_then(|line| line.split_whitespace().next()), text)
}

fn number(word: Option<&str>, text: &str) -> Result<u64> {
    let number = word.and_then(|word| word.parse().ok());
    number.with_context(|| format!("no counter is shown: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_the_others_are_found_in_what_they_print() {
        let snmp = "Ip: Forwarding DefaultTTL InReceives InHdrErrors\nIp: 2 64 1234 0\n";
        assert_eq!(in_receives(snmp).unwrap(), 1234);
        let iptables =
            "Chain PREROUTING (policy ACCEPT 0 packets, 0 bytes)\n   77  2156 DROP  0 -- * *\n";
        assert_eq!(number_before(iptables, "DROP").unwrap(), 77);
        assert!(in_receives("").is_err() && number_before("", "DROP").is_err());
    }
}
