//! The contenders between floods and servers, each with its own interface, servers and users.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use aya::{Ebpf, EbpfLoader, programs::xdp::XdpMode};
use ratelimit_common::layout::SOURCES_DEFAULT;
use ratelimit_tests::{
    Lab,
    lab::{INTERFACE, Namespace},
    service::Service,
};

use super::{
    servers::Servers,
    users::{self, Users},
};
use crate::{
    harness,
    live::xdp_firewall::{self, Rule},
    placement::{self, HOST, WORLD},
    store::Store,
};

/// Packets per second that each source may send, and at once. A user sends six a minute.
const LIMIT: [u32; 2] = [5, 20];

/// Users open as many connections as the server serves, so each SYN has to prove its source.
const CHALLENGE: &str = "[challenge.tcp]\nmethod = \"syncookie\"\nwhen = \"always\"\n\
                         for = \"10s\"\n\
                         [challenge.dns]\nwhen = \"over 5_000 packets/s\"\n";

/// The kind of contender.
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
    /// The program of XDP-Firewall, with a rule for all sources.
    XdpFirewall,
    /// This limiter.
    Ratelimit(Store),
    /// This limiter, which challenges sources that are not verified, for connections and for
    /// queries.
    Challenge,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::NoLimiter,
        Self::Nftables,
        Self::Synproxy,
        Self::Hashlimit,
        Self::XdpFirewall,
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
            Self::XdpFirewall => "XDP-Firewall",
            Self::Ratelimit(Store::Lru) => "ratelimit lru",
            Self::Ratelimit(Store::Compact) => "ratelimit compact",
            Self::Challenge => "ratelimit, challenge",
        }
    }
}

/// A contender with all that is its own.
pub struct Contender {
    /// The kind of contender.
    pub kind: Kind,
    /// The floods come from the far end, and the users.
    pub lab: Lab,
    /// The users at the far end.
    pub users: Users,
    _servers: Servers,
    _service: Option<Service>,
    _programs: [Option<Ebpf>; 2],
}

impl Contender {
    /// Sets it up.
    pub fn new(kind: Kind, object: &[u8], checkout: Option<&Path>) -> Result<Self> {
        let lab = lab()?;
        // A veth interface takes what a program at its other end sends back only with a program of
        // its own.
        let far = attach(&lab.far, object, "pass")?;
        let servers = Servers::new(&lab.near)?;
        let users = Users::new(&lab.far)?;
        let mut near = None;
        let mut service = None;
        match kind {
            Kind::NoLimiter => {}
            Kind::XdpFirewall => near = Some(xdp_firewall(&lab.near, checkout)?),
            Kind::Nftables => meter(&lab.near)?,
            Kind::Synproxy => {
                meter(&lab.near)?;
                synproxy(&lab.near)?;
            }
            Kind::Hashlimit => hashlimit(&lab.near)?,
            Kind::Ratelimit(store) => service = Some(Service::started(&lab, &policy(store))?),
            Kind::Challenge => {
                let toml = policy(Store::Lru) + CHALLENGE;
                service = Some(Service::started(&lab, &toml)?);
            }
        }
        if let Some(service) = &service {
            placement::keep_on(HOST, service.pid()?)?;
        }
        placement::receive_on(&lab.near, HOST)?;
        placement::receive_on(&lab.far, WORLD)?;
        Ok(Self {
            kind,
            lab,
            users,
            _servers: servers,
            _service: service,
            _programs: [Some(far), near],
        })
    }
}

/// The near end has routes to users and forged sources, so that its answers go somewhere.
fn lab() -> Result<Lab> {
    let lab = Lab::new()?;
    lab.add_addresses(&["10.77.0.1/24"], &["10.77.0.2/24"])?;
    lab.near
        .ip(&["link", "set", INTERFACE, "address", "02:00:00:00:00:02"])?;
    lab.far
        .ip(&["link", "set", INTERFACE, "address", "02:00:00:00:00:01"])?;
    for namespace in [&lab.near, &lab.far] {
        namespace.ip(&["link", "set", "lo", "up"])?;
    }
    for (namespace, address, mac) in [
        (&lab.near, "10.77.0.2", "02:00:00:00:00:01"),
        (&lab.near, "10.77.0.3", "02:00:00:00:00:03"),
        (&lab.far, "10.77.0.1", "02:00:00:00:00:02"),
    ] {
        let neighbour = ["neighbour", "replace", address, "lladdr", mac];
        namespace.ip(&[&neighbour[..], &["dev", INTERFACE]].concat())?;
    }
    for [network, router] in [[users::NETWORK, "10.77.0.2"], ["default", "10.77.0.3"]] {
        lab.near.ip(&["route", "add", network, "via", router])?;
    }
    Ok(lab)
}

/// Attaches a program of the harness to the interface of a namespace.
fn attach(namespace: &Namespace, object: &[u8], program: &str) -> Result<Ebpf> {
    let mut ebpf = EbpfLoader::new()
        .load(object)
        .context("reading the harness")?;
    let xdp = harness::xdp(&mut ebpf, program)?;
    xdp.load().with_context(|| format!("loading `{program}`"))?;
    namespace
        .enter(|| xdp.attach(INTERFACE, XdpMode::Driver))
        .with_context(|| format!("attaching `{program}`"))?;
    Ok(ebpf)
}

/// A source over the limit is blocked for a second.
fn xdp_firewall(near: &Namespace, checkout: Option<&Path>) -> Result<Ebpf> {
    let [_, packets] = LIMIT;
    let rule = Rule {
        packets,
        block_seconds: 1,
    };
    let checkout = checkout.context("no checkout is named")?;
    let mut ebpf = xdp_firewall::load(checkout, rule, SOURCES_DEFAULT)?;
    let program = xdp_firewall::program(&mut ebpf)?;
    near.enter(|| program.attach(INTERFACE, XdpMode::Driver))?;
    Ok(ebpf)
}

fn policy(store: Store) -> String {
    let [packets, burst] = LIMIT;
    let store = store.label();
    format!(
        "[source]\n\
         store = \"{store}\"\n\
         [policy.default]\n\
         limits = \
         [{{ packets = {packets}, per = \"1s\", algorithm = \"token-bucket\", burst = {burst} }}]\n"
    )
}

fn meter(near: &Namespace) -> Result<()> {
    let [packets, burst] = LIMIT;
    let limit = format!("limit rate over {packets}/second burst {burst} packets");
    near.run(
        "nft",
        &[&format!(
            "add table netdev bench; add set netdev bench seen \
             {{ type ipv4_addr; size {SOURCES_DEFAULT}; flags dynamic,timeout; timeout 10s; }}; \
             add chain netdev bench ingress \
             {{ type filter hook ingress device {INTERFACE} priority 0; }}; add rule netdev bench \
             ingress add @seen {{ ip saddr {limit} }} drop"
        )],
    )
    .map(drop)
}

fn hashlimit(near: &Namespace) -> Result<()> {
    let [packets, burst] = LIMIT;
    let capacity = SOURCES_DEFAULT;
    let rule = format!(
        "-t raw -A PREROUTING -i {INTERFACE} -j DROP -m hashlimit --hashlimit-name bench \
         --hashlimit-mode srcip --hashlimit-above {packets}/second --hashlimit-burst {burst} \
         --hashlimit-htable-size {capacity} --hashlimit-htable-max {capacity} \
         --hashlimit-htable-expire 10000"
    );
    let words: Vec<_> = rule.split_whitespace().collect();
    near.run("iptables", &words).map(drop)
}

/// As in the wiki of nftables. Queries are not tracked, or a flood of them would fill the table of
/// connections.
fn synproxy(near: &Namespace) -> Result<()> {
    near.run(
        "nft",
        &["add table ip proxy; add chain ip proxy raw \
             { type filter hook prerouting priority raw; }; add chain ip proxy out \
             { type filter hook output priority raw; }; add chain ip proxy in \
             { type filter hook input priority filter; }; add rule ip proxy raw udp dport 53 \
             notrack; add rule ip proxy out udp sport 53 notrack; add rule ip proxy raw tcp dport \
             80 tcp flags syn notrack; add rule ip proxy in tcp dport 80 ct state \
             invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm; add rule ip proxy \
             in ct state invalid drop"],
    )?;
    // Connections that are over would fill the table for two minutes.
    for (setting, value) in [("tcp_loose", "0"), ("tcp_timeout_time_wait", "1")] {
        let path = format!("/proc/sys/net/netfilter/nf_conntrack_{setting}");
        near.enter(|| fs::write(&path, value)).context(path)?;
    }
    Ok(())
}
