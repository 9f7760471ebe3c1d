//! Attacks and ordinary traffic from the field, frame by frame: attacks are named correctly within
//! a second, at low and high rates, and ordinary traffic is not reported.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is cast is small, and says so beside"
)]

use std::{fs, net::IpAddr, time::Duration};

use ratelimit_common::{Cursor, parse::LinkLayer, sample::Socket};

use super::*;
use crate::{
    capture, config,
    detection::Host,
    simulation::{Configured, Simulation},
};

const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const FIN: u8 = 1;

/// One packet to the target, by its number.
type Forge = fn(u32) -> Packet;

/// A packet of IPv4.
#[derive(Clone)]
struct Packet {
    source: u32,
    protocol: u8,
    /// Flags and offset of a fragment.
    fragment: u16,
    upper: Vec<u8>,
    /// The bytes of its frame.
    bytes: u32,
    socket: Socket,
    /// It goes from the target to the source.
    is_back: bool,
}

/// The location of the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    /// It is this host.
    Here,
    /// It is behind this host, or nothing is known of it.
    Behind,
    Both,
}
use At::{Behind, Both, Here};

/// Attacks: kind, name, location of the target, packets per second, and a function that makes the
/// frames.
#[rustfmt::skip]
const ATTACKS: [(Kind, &str, At, &[u32], Forge); 45] = [
    (Kind::Reflection, "DNS, large answers", Both, &[100, 3_000, 40_000], |n| answer(n % 300, 53, to(n), 1_400)),
    (Kind::Reflection, "DNS, with fragments", Both, &[300, 3_000, 40_000], |n| match n % 3 {
        0 => answer(n % 900, 53, 80, 1_500).fragment(0x2000),
        _ => answer(n % 900, 0, 0, 1_500).fragment(185),
    }),
    (Kind::Reflection, "NTP monlist", Both, &[100, 3_000, 40_000], |n| answer(n % 200, 123, to(n), 482)),
    (Kind::Reflection, "NTP of 10 servers to a web port", Both, &[100, 3_000, 40_000], |n| answer(n % 10, 123, 80, 482)),
    (Kind::Reflection, "SSDP", Both, &[150, 3_000, 40_000], |n| answer(n % 900, 1_900, to(n), 350)),
    (Kind::Reflection, "CLDAP", Both, &[100, 3_000, 40_000], |n| answer(n % 90, 389, 443, 1_500)),
    (Kind::Reflection, "memcached of 9 servers to random ports", Both, &[3_000, 40_000], |n| answer(n % 9, 11_211, any(n), 1_442)),
    (Kind::Reflection, "memcached of one server", Here, &[100, 3_000, 40_000], |n| answer(0, 11_211, 40_000 + (n % 7) as u16, 1_442)),
    (Kind::Reflection, "chargen", Both, &[100, 3_000], |n| answer(n % 50, 19, to(n), 1_066)),
    (Kind::Reflection, "QOTD", Both, &[3_000, 40_000], |n| answer(n % 400, 17, to(n), 180)),
    (Kind::Reflection, "SNMP of 20 agents", Here, &[100, 3_000, 40_000], |n| answer(n % 20, 161, to(n), 1_000)),
    (Kind::Reflection, "WS-Discovery", Both, &[100, 3_000], |n| answer(n % 800, 3_702, to(n), 1_100)),
    (Kind::Reflection, "CoAP", Both, &[3_000], |n| answer(n % 800, 5_683, to(n), 250)),
    (Kind::Reflection, "TFTP", Both, &[3_000], |n| answer(n % 100, 69, to(n), 558)),
    (Kind::Reflection, "Quake", Both, &[3_000], |n| answer(n % 700, 27_960, to(n), 800)),
    (Kind::Reflection, "QUIC servers", Here, &[3_000, 40_000], |n| answer(n % 90, 443, to(n), 1_242)),
    (Kind::Reflection, "ten services at once, each a little", Both, &[3_000], |n| {
        let services = [53, 123, 161, 389, 1_900, 3_283, 3_702, 5_353, 10_001, 11_211];
        answer(n / 10 % 90, services[(n % 10) as usize], 80, 1_200)
    }),
    (Kind::Reflection, "DNS, small answers to one port", Both, &[3_000, 40_000], |n| answer(n % 300, 53, 40_000, 130)),
    (Kind::Reflection, "DNS, small answers to many ports of a web server", Behind, &[3_000, 40_000], |n| match n % 10 {
        0 => segment(n % 50 * 7_919, 443, any(n), ACK).back(),
        _ => answer(n % 300, 53, to(n), 130),
    }),
    (Kind::Reflection, "NTP of 20 servers, small, to a web port", Behind, &[3_000, 40_000], |n| answer(n % 20, 123, 80, 90)),
    (Kind::SynFlood, "SYN with options", Both, &[100, 900, 40_000], |n| segment(any_source(n), any(n * 7), 443, SYN)),
    (Kind::TcpFlags, "SYN with ECN", Both, &[100, 900, 40_000], |n| segment(any_source(n), any(n * 7), 443, SYN | 0xc0)),
    (Kind::TcpFlags, "Christmas trees", Both, &[100, 900], |n| segment(any_source(n), any(n * 7), 80, 0x29)),
    (Kind::TcpFlags, "FIN alone", Both, &[900], |n| segment(any_source(n), any(n * 7), 80, FIN)),
    (Kind::AckFlood, "ACK to a port without connections", Here, &[1_500, 40_000], |n| segment(any_source(n), any(n * 7), 80, ACK)),
    (Kind::AckFlood, "PSH-ACK of one source", Here, &[1_500, 40_000], |n| segment(7, any(n), 80, ACK | PSH)),
    (Kind::AckFlood, "ACK of forged sources to random ports", Both, &[1_500, 40_000], |n| segment(any_source(n), any(n * 7), any(n), ACK)),
    (Kind::AckFlood, "ACK of forged sources to one port, which the target resets", Behind, &[3_000, 80_000], |n| match n % 2 {
        0 => segment(any_source(n), any(n * 7), 443, ACK),
        _ => segment(any_source(n - 1), 443, any((n - 1) * 7), RST).back(),
    }),
    (Kind::AckFlood, "ACK of one source to one port, which the target resets", Behind, &[3_000, 80_000], |n| match n % 2 {
        0 => segment(7, any(n), 443, ACK | PSH),
        _ => segment(7, 443, any(n - 1), RST).back(),
    }),
    (Kind::AckFlood, "FIN-ACK of forged sources", Both, &[1_500, 40_000], |n| segment(any_source(n), any(n * 7), 443, FIN | ACK)),
    (Kind::AckFlood, "FIN-PSH-ACK of few sources", Both, &[1_500, 40_000], |n| segment(n % 5, any(n), 80, FIN | PSH | ACK)),
    (Kind::SynAckReflection, "SYN-ACK of 300 servers", Both, &[100, 900, 40_000], |n| segment(n % 300 * 7_919, 443, any(n), SYN | ACK)),
    (Kind::SynAckReflection, "SYN-ACK of 4 servers", Here, &[900, 40_000], |n| segment(n % 4 * 7_919, 443, any(n), SYN | ACK)),
    (Kind::RstFlood, "RST", Both, &[100, 900, 40_000], |n| segment(any_source(n), any(n * 7), 80, RST)),
    (Kind::UdpFlood, "one byte to random ports", Both, &[1_500, 40_000], |n| datagram(7, 40_001, any(n), 60)),
    (Kind::UdpFlood, "1,400 bytes to random ports, forged", Both, &[100, 1_500, 40_000], |n| datagram(any_source(n), any(n * 3), any(n), 1_442)),
    (Kind::UdpFlood, "from port 53 to random ports, of one source", Both, &[3_000, 40_000], |n| datagram(7, 53, any(n), 60)),
    (Kind::UdpFlood, "to port 80 of few sources", Here, &[1_500, 40_000], |n| datagram(n % 5, any(n), 80, 542)),
    (Kind::UdpFlood, "to port 53 where nobody serves, of one source", Here, &[1_500, 40_000], |n| datagram(7, any(n), 53, 60)),
    (Kind::IcmpFlood, "echoes", Both, &[1_500, 40_000], |n| icmp(any_source(n), 8, 98)),
    (Kind::IcmpFlood, "unreachable: what others were sent", Both, &[1_500], |n| icmp(any_source(n), 3, 70)),
    (Kind::FragmentFlood, "fragments of nothing", Both, &[100, 1_500, 40_000], |n| answer(any_source(n), 0, 0, 600).fragment(185)),
    (Kind::ProtocolFlood, "GRE of 5 sources, where no tunnel ends", Here, &[1_500, 40_000], |n| other(n % 5, 47, 554)),
    (Kind::ProtocolFlood, "IP in IP of one source, where no tunnel ends", Here, &[1_500, 40_000], |_| other(7, 4, 554)),
    (Kind::ProtocolFlood, "GRE of a botnet", Both, &[1_500, 40_000], |n| other(n % 900 * 7_919, 47, 554)),
];

/// Floods of other protocols.
#[rustfmt::skip]
const PROTOCOLS: [(&str, &[u32], Forge); 4] = [
    ("GRE of forged sources", &[100, 1_500, 40_000], |n| other(any_source(n), 47, 554)),
    ("ESP of forged sources", &[1_500, 40_000], |n| other(any_source(n), 50, 554)),
    ("any protocol, of one source", &[100, 1_500, 40_000], |n| other(7, 60 + (n % 60) as u8, 60)),
    ("a protocol that is none", &[100, 1_500, 40_000], |_| other(7, 255, 60)),
];

/// Ordinary traffic.
#[rustfmt::skip]
const ORDINARY: [(&str, At, &[u32], Forge); 52] = [
    ("a download by TCP", Here, &[1_500, 80_000], |n| segment(7, 443, 40_000, ACK).socket(Socket::Connected).bytes(1_500 + n % 2)),
    ("a download by TCP, forwarded", Behind, &[1_500, 80_000], |_| segment(7, 443, 40_000, ACK)),
    ("downloads of many clients, forwarded", Behind, &[1_500, 80_000], |n| segment(n % 400 * 7_919, 30_000 + (n % 400) as u16, 443, ACK)),
    ("a gateway that translates, with thousands of connections", Behind, &[80_000], |n| segment(n % 900 * 7_919, 443, 1_024 + (n % 9_000) as u16, ACK)),
    ("a download by TCP that the client ended", Here, &[80_000], |n| {
        let socket = if n < 40_000 { Socket::Connected } else { Socket::None };
        segment(7, 443, 40_000, ACK).socket(socket)
    }),
    ("a download by QUIC", Here, &[1_500, 18_000], |_| datagram(7, 443, 40_000, 1_242).socket(Socket::Datagram)),
    ("a download by QUIC, forwarded", Behind, &[1_500, 18_000], |_| datagram(7, 443, 40_000, 1_242)),
    ("a download by QUIC that the client ended", Here, &[18_000], |n| {
        let socket = if n < 9_000 { Socket::Datagram } else { Socket::None };
        datagram(7, 443, 40_000, 1_242).socket(socket)
    }),
    ("an upload by QUIC", Both, &[1_500, 18_000], |_| datagram(7, 40_000, 443, 1_242).socket(Socket::Datagram)),
    ("an upload by QUIC, forwarded", Behind, &[1_500, 18_000], |_| datagram(7, 40_000, 443, 1_242)),
    ("a resolver", Both, &[300, 8_000], |n| answer(n % 700, 53, 32_768 + to(n) % 20_000, 300).socket(Socket::Datagram)),
    ("a resolver, forwarded", Behind, &[300, 8_000], |n| answer(n % 700, 53, 1_024 + any(n) % 60_000, 300)),
    ("a resolver whose questions are seen", Behind, &[600, 16_000], |n| match n % 2 {
        0 => datagram(n % 700 * 7_919, 1_024 + any(n) % 60_000, 53, 80).back(),
        _ => answer((n - 1) % 700, 53, 1_024 + any(n - 1) % 60_000, 300),
    }),
    ("a resolver that asks each server once, and browses", Behind, &[3_000, 16_000], |n| match n % 4 {
        0 => segment(n % 50 * 7_919, 443, any(n), ACK).back(),
        1 => datagram(any_source(n), 1_024 + any(n) % 60_000, 53, 80).back(),
        _ => datagram(any_source(n - n % 2), 53, 1_024 + any(n) % 60_000, 130),
    }),
    ("a resolver with clients, few of its packets seen that go out", Behind, &[16_000], |n| match n % 100 {
        0 => datagram(n % 700 * 7_919, 1_024 + any(n) % 60_000, 53, 80).back(),
        1 => datagram(n % 900 * 7_919, 53, to(n), 200).back(),
        2..50 => datagram(n % 900 * 7_919, to(n), 53, 80),
        _ => answer(n % 700, 53, 1_024 + any(n) % 60_000, 300),
    }),
    ("a poller", Both, &[300, 5_000], |n| answer(n % 30, 161, 45_161, 1_400).socket(Socket::Datagram)),
    ("a poller, forwarded", Behind, &[300, 5_000], |n| answer(n % 30, 161, to(n), 1_400)),
    ("calls", Here, &[5_000], |n| datagram(n % 100, 20_007 + (n % 100) as u16, 10_000 + (n % 100) as u16, 214).socket(Socket::Datagram)),
    ("calls, forwarded", Behind, &[5_000], |n| datagram(n % 100, 20_007 + (n % 100) as u16, 10_000 + (n % 100) as u16, 214)),
    ("players of a game", Both, &[6_000], |n| datagram(n % 100 * 7_919, 27_005, 27_015, 120).socket(Socket::Datagram)),
    ("players of a game, forwarded", Behind, &[6_000], |n| datagram(n % 100 * 7_919, 30_000 + (n % 100) as u16, 27_015, 120)),
    ("players of a game whose clients use one port, forwarded", Behind, &[1_500, 12_800], |n| datagram(n % 100 * 7_919, 27_005, 27_015, 120)),
    ("DHCP renewals, forwarded", Behind, &[1_500, 12_800], |n| datagram(n % 900 * 7_919, 68, 67, 342)),
    ("phones, forwarded", Behind, &[1_500, 12_800], |n| datagram(n % 200 * 7_919, 5_060, 5_080, 700)),
    ("syslog of many hosts", Both, &[1_500, 12_800], |n| datagram(n % 400 * 7_919, 514, 1_514, 950).socket(Socket::Datagram)),
    ("traps of many agents, forwarded", Behind, &[1_500, 12_800], |n| datagram(n % 400 * 7_919, 161, 162, 450)),
    ("flows of many exporters", Both, &[1_500, 12_800], |n| datagram(n % 100 * 7_919, 9_995, 2_055, 1_450).socket(Socket::Datagram)),
    ("a concentrator of OpenVPN", Both, &[1_500, 12_800], |n| datagram(n % 100 * 7_919, 1_194, 443, 1_400).socket(Socket::Datagram)),
    ("a concentrator of OpenVPN, forwarded", Behind, &[1_500, 12_800], |n| datagram(n % 100 * 7_919, 1_194, 443, 1_400)),
    ("IPsec through NAT, forwarded", Behind, &[1_500, 12_800], |n| datagram(n % 100 * 7_919, 4_500, 500, 1_300)),
    ("a collector of syslog that is restarted", Here, &[9_000], |n| {
        let socket = if n % 9_000 < 3_000 { Socket::Datagram } else { Socket::None };
        datagram(n % 400 * 7_919, 514, 1_514, 950).socket(socket)
    }),
    ("a time server under load", Here, &[9_000], |n| datagram(any_source(n), any(n), 123, 90).socket(Socket::Datagram)),
    ("a name server under load", Here, &[9_000], |n| datagram(any_source(n), any(n), 53, 80).socket(Socket::Datagram)),
    ("a name server that is restarted", Here, &[9_000], |n| {
        let socket = if n % 9_000 < 3_000 { Socket::Datagram } else { Socket::None };
        datagram(any_source(n), any(n), 53, 80).socket(socket)
    }),
    ("a VPN of ESP", Both, &[1_500, 18_000], |n| other(n % 3, 50, 1_400)),
    ("a tunnel of GRE", Both, &[1_500, 18_000], |_| other(7, 47, 1_400)),
    ("WireGuard", Both, &[1_500, 18_000], |n| datagram(n % 3, 51_820, 51_820, 1_400).socket(Socket::Datagram)),
    ("BitTorrent over uTP", Here, &[9_000], |n| datagram(n % 80 * 7_919, 10_000 + (n % 80) as u16 * 500, 6_881, 1_400).socket(Socket::Datagram)),
    ("a tunnel of IPv6 in GRE of several sites", Behind, &[1_500, 18_000], |n| other(n % 40, 47, 1_400)),
    ("connections that end all at once", Both, &[9_000], |n| match n {
        0..4_000 => segment(any_source(n), any(n * 7), 443, FIN | ACK),
        _ => segment(7, 443, 40_000, ACK).socket(Socket::Connected),
    }),
    ("connections that the server ends", Both, &[800 * 5], |n| {
        let (client, port) = (n / 5 * 7_919, any(n / 5));
        match n % 5 {
            0 => segment(client, port, 80, SYN),
            1 | 2 => segment(client, port, 80, ACK),
            3 => segment(client, port, 80, ACK | PSH).socket(Socket::Connected),
            _ => segment(client, port, 80, ACK | FIN),
        }
    }),
    ("mail: connections of few segments each", Behind, &[900 * 9], |n| {
        let (client, port) = (n / 9 * 7_919, any(n / 9));
        match n % 9 {
            0 => segment(client, port, 25, SYN),
            1..8 => segment(client, port, 25, ACK | PSH),
            _ => segment(client, port, 25, ACK | FIN),
        }
    }),
    ("a server that is started anew and resets its connections", Behind, &[9_000], |n| {
        let client = n / 2 % 4_500;
        match (n, n % 2) {
            (0..9_000, 0) => segment(client * 7_919, any(client), 443, ACK | PSH),
            (0..9_000, _) => segment(client * 7_919, 443, any(client), RST).back(),
            (_, 0) => segment(client * 7_919, any(client), 443, ACK),
            (..) => segment(client * 7_919, 443, any(client), ACK).back(),
        }
    }),
    ("a server that ends connections by resets", Behind, &[800 * 6], |n| {
        let (client, port) = (n / 6 * 7_919, any(n / 6));
        match n % 6 {
            0 => segment(client, port, 80, SYN),
            1 => segment(client, 80, port, SYN | ACK).back(),
            2 => segment(client, port, 80, ACK),
            3 => segment(client, port, 80, ACK | PSH),
            4 => segment(client, 80, port, ACK | PSH).back(),
            _ => segment(client, 80, port, RST | ACK).back(),
        }
    }),
    ("a scan of many hosts, which reset it", Behind, &[180, 3_000], |n| match n % 2 {
        0 => segment(n % 900 * 7_919, 40_000, any(n), SYN).back(),
        _ => segment((n - 1) % 900 * 7_919, any(n - 1), 40_000, RST | ACK),
    }),
    ("a load balancer that sends to a server through IP in IP, which answers clients itself", Behind, &[1_500, 18_000], |n| match n % 10 {
        0 => segment(9, 9_100, 40_000, ACK | PSH).back(),
        1 => segment(9, 40_000, 9_100, ACK),
        _ => other(n % 2, 4, 1_400),
    }),
    ("a CDN that fills its cache", Behind, &[18_000], |n| segment(n % 40 * 7_919, 443, 30_000 + (n % 400) as u16, ACK).bytes(1_514)),
    ("mDNS of a large segment", Both, &[900], |n| datagram(n % 300 * 7_919, 5_353, 5_353, 300).socket(Socket::Datagram)),
    ("a slow scan of one host's ports", Both, &[90], |n| segment(7, 40_000, any(n), SYN)),
    ("a slow scan by FIN-ACK", Both, &[90], |n| segment(7, 40_000, any(n), FIN | ACK)),
    ("a monitor that is answered", Both, &[500], |n| icmp(n * 7, 0, 98)),
    ("new connections", Here, &[800 * 5], |n| {
        let (client, port) = (n / 5 * 7_919, any(n / 5));
        match n % 5 {
            0 => segment(client, port, 80, SYN),
            1 | 2 => segment(client, port, 80, ACK),
            3 => segment(client, port, 80, ACK | PSH).socket(Socket::Connected),
            _ => segment(client, port, 80, ACK | FIN).socket(Socket::Connected),
        }
    }),
];

#[test]
fn attacks_are_named_for_what_they_are() {
    check_all(attacks().map(slowest));
}

#[test]
#[ignore = "thorough"]
fn attacks_are_named_for_what_they_are_slowly_and_fast() {
    check_all(attacks());
}

fn attacks() -> impl Iterator<Item = Traffic> {
    let attacks =
        ATTACKS.map(|(kind, what, at, rates, forge)| (what, at, rates, forge, Some(kind)));
    let kind = Some(Kind::ProtocolFlood);
    let protocols = PROTOCOLS.map(|(what, rates, forge)| (what, Both, rates, forge, kind));
    attacks.into_iter().chain(protocols)
}

#[test]
fn ordinary_traffic_is_not_named() {
    check_all(ordinary().map(slowest));
}

#[test]
#[ignore = "thorough"]
fn ordinary_traffic_is_not_named_slow_or_fast() {
    check_all(ordinary());
}

fn ordinary() -> impl Iterator<Item = Traffic> {
    let ordinary = ORDINARY.into_iter();
    ordinary.map(|(what, at, rates, forge)| (what, at, rates, forge, None))
}

/// Kind, location, packets per second, frames, and the expected name.
type Traffic = (&'static str, At, &'static [u32], Forge, Option<Kind>);

/// The same at the lowest rate.
fn slowest((what, at, rates, forge, kind): Traffic) -> Traffic {
    (what, at, &rates[..1], forge, kind)
}

#[test]
fn ports_that_this_host_asks_from_are_told_by_it() {
    let poll = |n: u32| answer(n % 90, 161, 20_161, 1_400).socket(Socket::Datagram);
    let asks_from = |port| Host::new([TARGET], Some(port));
    assert_eq!(kinds(asks_from(16_384), 3_000, 1, poll), []);
    assert_eq!(kinds(asks_from(32_768), 3_000, 1, poll), [Kind::Reflection]);
}

#[test]
fn a_target_that_resets_a_flood_is_no_heavy_hitter() {
    let flood = |n: u32| match n % 2 {
        0 => segment(any_source(n), any(n * 7), 443, ACK),
        _ => segment(any_source(n - 1), 443, any((n - 1) * 7), RST).back(),
    };
    assert_eq!(kinds(Host::default(), 80_000, 32, flood), [Kind::AckFlood]);
}

/// The rate above which one packet in 32 is sampled.
const SAMPLED: u32 = 10_000;

#[track_caller]
fn check_all(traffic: impl Iterator<Item = Traffic>) {
    let mut wrong = Vec::new();
    for (what, at, rates, forge, kind) in traffic {
        let places = [Here, Behind].into_iter();
        for place in places.filter(|place| at == Both || at == *place) {
            let host = match place {
                Here => here(kind.is_none()),
                Behind | Both => Host::default(),
            };
            for rate in rates {
                let every = if *rate < SAMPLED { 1 } else { 32 };
                let mut found = kinds(host.clone(), *rate, every, forge);
                // One source that floods is one that sends far more than the others, too.
                found.retain(|found| kind.is_none() || *found != Kind::HeavyHitter);
                if found != Vec::from_iter(kind) {
                    wrong.push(format!("{what}, {place:?}: {rate} a second: {found:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The configuration proposed for an attack drops nearly all of it, and no packet to another host.
#[test]
fn what_is_proposed_against_an_attack_drops_it_and_nothing_ordinary() {
    const NEIGHBOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 10, 10, 11));
    let protocols = PROTOCOLS.map(|(what, rates, forge)| (what, Both, rates, forge));
    let attacks = ATTACKS.map(|(_, what, at, rates, forge)| (what, at, rates, forge));
    let mut wrong = Vec::new();
    for (what, at, rates, forge) in attacks.into_iter().chain(protocols) {
        let host = match at {
            Here => here(false),
            Behind | Both => Host::default(),
        };
        let rate = rates[0];
        let attacks = named_in_two_seconds(host, rate, 1, forge);
        let attacks = attacks.iter().map(|attack| {
            let subject: Subject = attack.subject.to_string().parse().unwrap();
            assert_eq!(subject, attack.subject);
            (attack.kind, subject)
        });
        let toml = toml(&against(attacks));
        let dropped = |target, forge: Forge| {
            let mut simulation = simulation(&toml);
            for number in 0..rate {
                let packet = forge(number);
                let frame = packet.frame(target);
                let packet = capture::Packet {
                    time_ns: Some(START_NS + u64::from(number) * SECOND_NS / u64::from(rate)),
                    frame: &frame,
                    frame_bytes: packet.bytes.max(60),
                };
                simulation.packet(packet).unwrap();
            }
            let answer = simulation.answer(1);
            let dropped = answer.verdicts.iter().filter(|row| row.action == "drop");
            dropped.map(|row| row.packets).sum::<u64>()
        };
        let of_attack = dropped(TARGET, forge);
        let all = (0..rate).filter(|number| !forge(*number).is_back).count();
        if of_attack * 100 < all as u64 * 95 {
            wrong.push(format!("{what}: {of_attack} of {all} dropped by\n{toml}"));
        }
        // By the number of the attack another one, so that each meets some.
        let (ordinary, _, _, forge) = ORDINARY[of_attack as usize % ORDINARY.len()];
        let of_others = dropped(NEIGHBOUR, forge);
        if of_others > 0 {
            wrong.push(format!(
                "{ordinary} beside {what}: {of_others} dropped by\n{toml}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A host at which tunnels of GRE and IP end, or not.
fn here(has_tunnels: bool) -> Host {
    let host = Host::new([TARGET], None);
    if has_tunnels {
        host
    } else {
        host.without(vec![4, 41, 47])
    }
}

fn simulation(toml: &str) -> Simulation {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let text = format!("[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = []\n{toml}");
    fs::write(&path, text).unwrap();
    let configured = Configured {
        config: config::load(&path).unwrap(),
        lists: Vec::new(),
        tick: Duration::ZERO,
    };
    Simulation::new(configured, None, None).unwrap()
}

/// The attacks named within two seconds, at a packet rate and a sampling rate.
fn kinds(host: Host, rate: u32, every: u32, forge: impl Fn(u32) -> Packet) -> Vec<Kind> {
    let began = named_in_two_seconds(host, rate, every, forge);
    let mut kinds: Vec<Kind> = began.iter().map(|attack| attack.kind).collect();
    kinds.dedup();
    kinds
}

fn named_in_two_seconds(
    host: Host,
    rate: u32,
    every: u32,
    forge: impl Fn(u32) -> Packet,
) -> Vec<Attack> {
    let mut detector = detector();
    detector.set_host(host);
    let mut began = Vec::new();
    for number in (0..rate * 2).filter(|number| number % every == 0) {
        // Whatever is regular in the numbers is not looked at regularly.
        let packet = forge(number + number / every % every);
        let at = START_NS + u64::from(number) * SECOND_NS / u64::from(rate);
        began.extend(detector.take(&packet.sample(at, every)).began);
    }
    began.extend(detector.advance(after(2)).began);
    began
}

impl Packet {
    fn fragment(self, fragment: u16) -> Self {
        Self { fragment, ..self }
    }

    fn socket(self, socket: Socket) -> Self {
        Self { socket, ..self }
    }

    fn bytes(self, bytes: u32) -> Self {
        Self { bytes, ..self }
    }

    fn back(self) -> Self {
        Self {
            is_back: true,
            ..self
        }
    }

    fn sample(&self, at_ns: u64, packets: u32) -> Sample {
        let frame = self.frame(TARGET);
        let cursor = Cursor::with_frame_bytes(&frame, self.bytes.max(60));
        let at = Instant::from_nanos(at_ns);
        let sample = Sample::read(at, packets, cursor, LinkLayer::Ethernet).unwrap();
        sample.with_socket(self.socket)
    }

    /// The front of its frame, on the way to a target.
    fn frame(&self, target: IpAddr) -> Vec<u8> {
        let IpAddr::V4(target) = target else { panic!() };
        let source = (0x6000_0000 | self.source & 0x0fff_ffff).to_be_bytes();
        let (source, target) = if self.is_back {
            (target.octets(), source)
        } else {
            (source, target.octets())
        };
        let mut frame = vec![0; 128];
        frame[12] = 8;
        frame[14] = 0x45;
        let length = u16::try_from(self.bytes.max(60) - 14).unwrap();
        frame[16..18].copy_from_slice(&length.to_be_bytes());
        frame[20..22].copy_from_slice(&self.fragment.to_be_bytes());
        frame[23] = self.protocol;
        frame[26..30].copy_from_slice(&source);
        frame[30..34].copy_from_slice(&target);
        frame[34..34 + self.upper.len()].copy_from_slice(&self.upper);
        frame.truncate(usize::try_from(self.bytes.clamp(60, 128)).unwrap());
        frame
    }
}

fn other(source: u32, protocol: u8, bytes: u32) -> Packet {
    Packet {
        source,
        protocol,
        fragment: 0,
        upper: vec![0; 8],
        bytes,
        socket: Socket::None,
        is_back: false,
    }
}

fn datagram(source: u32, from: u16, to: u16, bytes: u32) -> Packet {
    let ([a, b], [c, d]) = (from.to_be_bytes(), to.to_be_bytes());
    Packet {
        upper: vec![a, b, c, d, 0, 8, 0, 0],
        ..other(source, 17, bytes)
    }
}

/// A datagram of one of many servers.
fn answer(server: u32, from: u16, to: u16, bytes: u32) -> Packet {
    datagram(server.wrapping_mul(7_919), from, to, bytes)
}

fn segment(source: u32, from: u16, to: u16, flags: u8) -> Packet {
    let ([a, b], [c, d]) = (from.to_be_bytes(), to.to_be_bytes());
    let mut upper = vec![a, b, c, d, 0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, flags];
    upper.resize(20, 0);
    Packet {
        upper,
        ..other(source, 6, 60)
    }
}

fn icmp(source: u32, kind: u8, bytes: u32) -> Packet {
    Packet {
        upper: vec![kind, 0, 0, 0],
        ..other(source, 1, bytes)
    }
}

/// A source of its own for each number.
fn any_source(number: u32) -> u32 {
    number.wrapping_mul(65_537)
}

/// A port of any height.
fn any(number: u32) -> u16 {
    u16::try_from(number.wrapping_mul(31_337) % 65_521).unwrap()
}

/// A port that a question may have come from.
fn to(number: u32) -> u16 {
    32_768 + any(number) % 28_000
}
