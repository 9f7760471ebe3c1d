//! Those that stand between floods and servers, each with an interface, servers and users of its own.

use std::fs;

use anyhow::{Context, Result};
use aya::{Ebpf, EbpfLoader, programs::xdp::XdpMode};
use ratelimit_common::layout::SOURCES_DEFAULT;
use ratelimit_tests::{
    Lab,
    lab::{INTERFACE, Namespace},
    service::Service,
};

use super::{client, servers::Servers};
use crate::{harness, store::Store};

/// Packets a second that each source may send, and at once. Users send 9.
const LIMIT: [u32; 2] = [25, 50];

/// Who it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// No limiter at all: the kernel has its SYN cookies.
    NoLimiter,
    /// A dynamic set of nftables at ingress.
    Nftables,
    /// The same, and the SYN proxy of nftables for the web server.
    Synproxy,
    /// The match `hashlimit` of iptables in the table `raw`.
    Hashlimit,
    /// This limiter.
    Ratelimit(Store),
    /// This limiter, which challenges sources that are not verified, for connections and for queries.
    Challenge,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NoLimiter,
        Self::Nftables,
        Self::Synproxy,
        Self::Hashlimit,
        Self::Ratelimit(Store::Lru),
        Self::Ratelimit(Store::Compact),
        Self::Challenge,
    ];

    /// Its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoLimiter => "no limiter",
            Self::Nftables => "nftables",
            Self::Synproxy => "nftables, synproxy",
            Self::Hashlimit => "iptables hashlimit",
            Self::Ratelimit(Store::Lru) => "ratelimit lru",
            Self::Ratelimit(Store::Compact) => "ratelimit compact",
            Self::Challenge => "ratelimit, challenge",
        }
    }
}

/// A contender with all that is its own.
pub struct Contender {
    /// Who it is.
    pub kind: Kind,
    /// The floods come from the far end, and the users.
    pub lab: Lab,
    _servers: Servers,
    _service: Option<Service>,
    _far: Ebpf,
}

impl Contender {
    /// Sets it up.
    pub fn new(kind: Kind, object: &[u8]) -> Result<Self> {
        let lab = lab()?;
        let far = receive_what_xdp_sends(&lab, object)?;
        let servers = Servers::new(&lab.near)?;
        let service = match kind {
            Kind::NoLimiter => None,
            Kind::Nftables => {
                meter(&lab.near)?;
                None
            }
            Kind::Synproxy => {
                meter(&lab.near)?;
                synproxy(&lab.near)?;
                None
            }
            Kind::Hashlimit => {
                hashlimit(&lab.near)?;
                None
            }
            Kind::Ratelimit(store) => Some(Service::started(&lab, &policy(store))?),
            Kind::Challenge => {
                let challenge = "[challenge.tcp]\nwhen = \"over 5_000 syn/s\"\n\
                                 [challenge.dns]\nwhen = \"over 5_000 packets/s\"\n";
                let toml = format!("{}{challenge}", policy(Store::Lru));
                Some(Service::started(&lab, &toml)?)
            }
        };
        Ok(Self {
            kind,
            lab,
            _servers: servers,
            _service: service,
            _far: far,
        })
    }
}

/// The near end has routes to users and forged sources, so that its answers go somewhere. A queue for each CPU, as cards have, and
/// frames of XDP are taken without a program too.
fn lab() -> Result<Lab> {
    let lab = Lab::new()?;
    lab.add_addresses(&["10.77.0.1/24"], &["10.77.0.2/24"])?;
    lab.near
        .ip(&["link", "set", INTERFACE, "address", "02:00:00:00:00:02"])?;
    lab.far
        .ip(&["link", "set", INTERFACE, "address", "02:00:00:00:00:01"])?;
    for namespace in [&lab.near, &lab.far] {
        namespace.run("ethtool", &["-K", INTERFACE, "gro", "on"])?;
        namespace.ip(&["link", "set", "lo", "up"])?;
    }
    // No end may have fewer queues to receive than the other has to send.
    for direction in ["rx", "tx"] {
        for namespace in [&lab.near, &lab.far] {
            namespace.run("ethtool", &["-L", INTERFACE, direction, "2"])?;
        }
    }
    for [address, mac] in [
        ["10.77.0.2", "02:00:00:00:00:01"],
        ["10.77.0.3", "02:00:00:00:00:03"],
    ] {
        lab.near.ip(&[
            "neighbour",
            "replace",
            address,
            "lladdr",
            mac,
            "dev",
            INTERFACE,
        ])?;
    }
    lab.near
        .ip(&["route", "add", client::NETWORK, "via", "10.77.0.2"])?;
    lab.near
        .ip(&["route", "add", "default", "via", "10.77.0.3"])?;
    lab.far
        .ip(&["route", "add", "local", client::NETWORK, "dev", "lo"])?;
    Ok(lab)
}

/// A veth interface takes what a program at its other end sends back only with a program of its own.
fn receive_what_xdp_sends(lab: &Lab, object: &[u8]) -> Result<Ebpf> {
    let mut ebpf = EbpfLoader::new()
        .load(object)
        .context("reading the harness")?;
    let pass = harness::xdp(&mut ebpf, "pass")?;
    pass.load().context("loading `pass`")?;
    lab.far
        .enter(|| pass.attach(INTERFACE, XdpMode::Driver))
        .context("attaching `pass`")?;
    Ok(ebpf)
}

fn policy(store: Store) -> String {
    let [packets, burst] = LIMIT;
    let store = store.label();
    format!(
        "[source]\nstore = \"{store}\"\n[policy.default]\n\
         limits = [{{ packets = {packets}, per = \"1s\", algorithm = \"token-bucket\", burst = {burst} }}]\n"
    )
}

fn meter(near: &Namespace) -> Result<()> {
    let [packets, burst] = LIMIT;
    let limit = format!("limit rate over {packets}/second burst {burst} packets");
    near.run(
        "nft",
        &[&format!(
            "add table netdev bench; \
             add set netdev bench seen {{ type ipv4_addr; size {SOURCES_DEFAULT}; flags dynamic,timeout; timeout 10s; }}; \
             add chain netdev bench ingress {{ type filter hook ingress device {INTERFACE} priority 0; }}; \
             add rule netdev bench ingress add @seen {{ ip saddr {limit} }} drop"
        )],
    )
    .map(drop)
}

fn hashlimit(near: &Namespace) -> Result<()> {
    let [packets, burst] = LIMIT;
    let capacity = SOURCES_DEFAULT;
    let rule = format!(
        "-t raw -A PREROUTING -i {INTERFACE} -j DROP -m hashlimit --hashlimit-name bench --hashlimit-mode srcip \
         --hashlimit-above {packets}/second --hashlimit-burst {burst} \
         --hashlimit-htable-size {capacity} --hashlimit-htable-max {capacity} --hashlimit-htable-expire 10000"
    );
    let words: Vec<_> = rule.split_whitespace().collect();
    near.run("iptables", &words).map(drop)
}

/// As the wiki of nftables has it. Queries are not tracked, or a flood of them would fill the table of connections.
fn synproxy(near: &Namespace) -> Result<()> {
    near.run(
        "nft",
        &["add table ip proxy; \
          add chain ip proxy raw { type filter hook prerouting priority raw; }; \
          add chain ip proxy out { type filter hook output priority raw; }; \
          add chain ip proxy in { type filter hook input priority filter; }; \
          add rule ip proxy raw udp dport 53 notrack; \
          add rule ip proxy out udp sport 53 notrack; \
          add rule ip proxy raw tcp dport 80 tcp flags syn notrack; \
          add rule ip proxy in tcp dport 80 ct state invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm; \
          add rule ip proxy in ct state invalid drop"],
    )?;
    near.enter(|| fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_loose", "0"))?;
    Ok(())
}
