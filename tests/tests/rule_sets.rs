//! Example rule sets of XDP-Firewall and nftables as configurations, with packets of each rule.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ratelimit_tests::{
    Frame,
    attached::Attached,
    packet::{ACK, ETHERNET_BYTES, RST, SYN},
    require_root,
    service::Service,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 1, 2, 3, 4);
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const BLOCKED: Ipv4Addr = Ipv4Addr::new(10, 50, 0, 4);

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const GRE: u8 = 47;

/// The smallest frame that Ethernet has, as a card receives it. A program may take what is shorter for truncated.
const ETHERNET_MIN: usize = 60;

/// What a packet is, itself, and whether it passes.
type Verdict = (&'static str, Vec<u8>, bool);

fn udp(source: impl Into<IpAddr>, port: u16) -> Vec<u8> {
    sent(Frame::ethernet().ip(source.into()).udp(port))
}

fn tcp(source: impl Into<IpAddr>, port: u16, flags: u8) -> Vec<u8> {
    sent(Frame::ethernet().ip(source.into()).tcp(port, flags))
}

/// A message of ICMP, or of ICMP for IPv6.
fn icmp(source: impl Into<IpAddr>, kind: u8, code: u8) -> Vec<u8> {
    let source = source.into();
    let protocol = if source.is_ipv4() { ICMP } else { ICMPV6 };
    protocol_of(source, protocol, &[kind, code, 0, 0, 0, 0, 0, 0])
}

fn protocol_of(source: impl Into<IpAddr>, protocol: u8, header: &[u8]) -> Vec<u8> {
    sent(
        Frame::ethernet()
            .ip(source.into())
            .protocol(protocol, header),
    )
}

fn sent(frame: Frame) -> Vec<u8> {
    frame.pad_to(ETHERNET_MIN).build()
}

/// The frame with another byte in its network header.
fn with(mut frame: Vec<u8>, place: usize, byte: u8) -> Vec<u8> {
    frame[ETHERNET_BYTES + place] = byte;
    frame
}

/// The IPv4 frame, which goes somewhere else.
fn to(mut frame: Vec<u8>, destination: [u8; 4]) -> Vec<u8> {
    frame[ETHERNET_BYTES + 16..][..4].copy_from_slice(&destination);
    frame
}

/// The example of XDP-Firewall's README, rule by rule. Its last rule drops a source, and an earlier one lets SYNs of all pass: so
/// that source has a limit without room, which what is exempt does not meet.
#[test]
fn the_example_of_xdp_firewall_has_the_same_verdicts() {
    check_verdicts(
        r#"[policy.default]
limits = []
[policy.blocked]
sources = ["10.50.0.4"]
limits = [{ bytes = 1, per = "1h" }]
[class.game]
protocol = "udp"
destination_ports = [27015]
action = "drop"
[class.game-syn]
tcp = "syn / syn"
destination_ports = [27015]
action = "exempt"
[class.icmp-code-0]
protocol = 1
icmp_code = 0
action = "drop"
"#,
        &["192.168.1.0/24", "10.3.0.0/24"],
        &[
            ("a datagram to the game", udp(SOURCE, 27_015), false),
            ("one of IPv6", udp(SOURCE_V6, 27_015), false),
            ("a datagram beside it", udp(SOURCE, 27_016), true),
            ("a SYN to the game", tcp(SOURCE, 27_015, SYN), true),
            ("one of IPv6", tcp(SOURCE_V6, 27_015, SYN), true),
            ("a SYN with ACK", tcp(SOURCE, 27_015, SYN | ACK), true),
            ("what follows it", tcp(SOURCE, 27_015, ACK), true),
            ("ICMP with code 0", icmp(SOURCE, 8, 0), false),
            ("another of it", icmp(SOURCE, 3, 0), false),
            ("ICMP with code 1", icmp(SOURCE, 3, 1), true),
            ("ICMP of IPv6 with code 0", icmp(SOURCE_V6, 128, 0), true),
            ("the source", udp(BLOCKED, 9), false),
            ("the source to the game", udp(BLOCKED, 27_015), false),
            ("its SYN to the game", tcp(BLOCKED, 27_015, SYN), true),
            ("what follows that", tcp(BLOCKED, 27_015, ACK), false),
            ("its SYN to another port", tcp(BLOCKED, 27_016, SYN), false),
            ("its neighbour", udp([10, 50, 0, 5], 9), true),
            ("the first range", udp([192, 168, 1, 255], 9), false),
            (
                "its SYN to the game",
                tcp([192, 168, 1, 0], 27_015, SYN),
                false,
            ),
            ("behind it", udp([192, 168, 2, 0], 9), true),
            ("the second range", udp([10, 3, 0, 1], 9), false),
            ("before it", udp([10, 2, 255, 255], 9), true),
        ],
    );
}

/// The other keys of its rules, one rule each, of which all drop. With protocols and ports: `flow_pps = 3` with `udp_dport = 53`;
/// `max_ttl = 20` with `udp_enabled`; `min_len = 1014` with `tcp_enabled`; `udp_sport = "5000-5010"`. With flags: `tcp_fin`, `tcp_psh` and
/// `tcp_urg`; `tcp_rst` with `tcp_dport = "6000-6009"`. Besides: `icmp_type = 13`; `dst_ip = "198.51.100.0/24"` with `tos = 184`; `src_ip6`.
#[test]
fn the_keys_of_xdp_firewall_have_the_same_verdicts() {
    let near = [198, 51, 100, 255];
    let apart = [198, 51, 101, 0];
    let long = |bytes| {
        let frame = Frame::ethernet().ipv4(SOURCE).tcp(443, ACK);
        frame.pad_to(bytes).build()
    };
    let port = |from: u16| {
        let [high, low] = from.to_be_bytes();
        protocol_of(SOURCE, 17, &[high, low, 0, 9, 0, 8, 0, 0])
    };
    let banned: Ipv6Addr = "2001:db8::66".parse().unwrap();
    let beside: Ipv6Addr = "2001:db8::67".parse().unwrap();
    check_verdicts(
        r#"[policy.default]
limits = [{ packets = 2, per = "1s", match = { protocol = "udp", destination_ports = [53] } }]
[class.voice]
destination = "198.51.100.0/24"
dscp = 46
action = "drop"
[class.far]
protocol = "udp"
ttl = ["0-20"]
action = "drop"
[class.long]
protocol = "tcp"
length = ["1000-65535"]
action = "drop"
[class.christmas]
tcp = "fin,psh,urg / fin,psh,urg"
action = "drop"
[class.from]
protocol = "udp"
source_ports = ["5000-5010"]
action = "drop"
[class.timestamp]
protocol = 1
icmp_type = 13
action = "drop"
[class.resets]
tcp = "rst / rst"
destination_ports = ["6000-6009"]
action = "drop"
"#,
        &["2001:db8::66/128"],
        &[
            ("the first query", udp(SOURCE, 53), true),
            ("the second", udp(SOURCE, 53), true),
            ("the third", udp(SOURCE, 53), false),
            ("of another source", udp(BLOCKED, 53), true),
            ("TOS there", to(with(udp(SOURCE, 9), 1, 184), near), false),
            ("another", to(with(udp(SOURCE, 9), 1, 136), near), true),
            ("elsewhere", to(with(udp(SOURCE, 9), 1, 184), apart), true),
            ("TTL", with(udp(SOURCE, 9), 8, 20), false),
            ("hop limit", with(udp(SOURCE_V6, 9), 7, 20), false),
            ("TTL beside it", with(udp(SOURCE, 9), 8, 21), true),
            ("hop limit beside it", with(udp(SOURCE_V6, 9), 7, 21), true),
            ("TTL of TCP", with(tcp(SOURCE, 443, ACK), 8, 20), true),
            ("long", long(1014), false),
            ("shorter", long(1013), true),
            ("Christmas tree", tcp(SOURCE, 80, FIN | PSH | URG), false),
            ("with ACK", tcp(SOURCE, 80, FIN | PSH | URG | ACK), false),
            ("without URG", tcp(SOURCE, 80, FIN | PSH | ACK), true),
            ("first port", port(5000), false),
            ("last port", port(5010), false),
            ("port before", port(4999), true),
            ("port behind", port(5011), true),
            ("timestamp", icmp(SOURCE, 13, 0), false),
            ("its answer", icmp(SOURCE, 14, 0), true),
            ("reset", tcp(SOURCE, 6009, RST | ACK), false),
            ("reset behind the ports", tcp(SOURCE, 6010, RST), true),
            ("no reset", tcp(SOURCE, 6009, ACK), true),
            ("the source", udp(banned, 9), false),
            ("its neighbour", udp(beside, 9), true),
        ],
    );
}

/// nftables' example of a server, as far as it needs no state of connections. What would be established or related passes by its
/// kind: segments that are no SYN, and errors.
#[test]
fn the_example_of_nftables_for_a_server_has_the_same_verdicts() {
    let echo = || icmp(SOURCE, 8, 0);
    check_verdicts(
        r#"[policy.default]
limits = []
[class.closed]
tcp = "syn"
destination_ports = ["0-21", "23-79", "81-442", "444-65535"]
action = "drop"
[class.udp]
action = "drop"
[class.tcp-invalid]
action = "drop"
[class.icmp-rest]
protocol = 1
icmp_type = ["1-2", "4-7", "9-10", "13-255"]
action = "drop"
[class.icmpv6-rest]
protocol = "icmpv6"
icmp_type = [0, "5-127", "130-133", "137-255"]
action = "drop"
[class.protocols]
protocol = ["igmp", "gre", "esp", 51, "sctp"]
action = "drop"
[node]
limits = [
  { packets = 5, per = "1m", match = { protocol = 1, icmp_type = 8 } },
  { packets = 5, per = "1m", match = { protocol = "icmpv6", icmp_type = 128 } },
]
"#,
        &[],
        &[
            ("SSH", tcp(SOURCE, 22, SYN), true),
            ("HTTP", tcp(SOURCE, 80, SYN), true),
            ("HTTPS", tcp(SOURCE_V6, 443, SYN), true),
            ("a closed port", tcp(SOURCE, 8080, SYN), false),
            ("one of IPv6", tcp(SOURCE_V6, 8080, SYN), false),
            ("established", tcp(SOURCE, 50_000, ACK), true),
            (
                "flags that nobody sends",
                tcp(SOURCE, 443, SYN | FIN),
                false,
            ),
            ("a datagram", udp(SOURCE_V6, 53), false),
            ("the first echo request", echo(), true),
            ("the second", echo(), true),
            ("the third", echo(), true),
            ("the fourth", echo(), true),
            ("the fifth", echo(), true),
            ("the sixth", echo(), false),
            ("one of IPv6", icmp(SOURCE_V6, 128, 0), true),
            ("related", icmp(SOURCE, 3, 3), true),
            ("related of IPv6", icmp(SOURCE_V6, 2, 0), true),
            ("a neighbour", icmp(LINK_LOCAL, 135, 0), true),
            ("a router", icmp(LINK_LOCAL, 134, 0), true),
            ("a redirect", icmp(SOURCE, 5, 0), false),
            ("one of IPv6", icmp(LINK_LOCAL, 137, 0), false),
            ("another protocol", protocol_of(SOURCE, GRE, &[0; 8]), false),
        ],
    );
}

/// nftables' example of a workstation (`workstation.nft`). Answers to its own datagrams come to ports that the kernel gives clients.
#[test]
fn the_example_of_nftables_for_a_workstation_has_the_same_verdicts() {
    check_verdicts(
        r#"[policy.default]
limits = [
  { bytes = 1, per = "1h", match = { protocol = "icmpv6", icmp_type = ["130-132", 143, "151-153"] } },
]
[policy.link-local]
sources = ["fe80::/10"]
limits = []
[class.tcp-syn]
action = "drop"
[class.tcp-invalid]
action = "drop"
[class.services]
protocol = "udp"
destination_ports = ["0-32767"]
action = "drop"
[class.icmp-rest]
protocol = 1
icmp_type = ["1-2", "4-10", "13-255"]
action = "drop"
[class.icmpv6-rest]
protocol = "icmpv6"
icmp_type = [0, "5-127", "137-142", "144-147", 150, "154-255"]
action = "drop"
[class.protocols]
protocol = ["igmp", "gre", "esp", 51, "sctp"]
action = "drop"
"#,
        &[],
        &[
            ("a SYN", tcp(SOURCE, 22, SYN), false),
            ("one of IPv6", tcp(SOURCE_V6, 443, SYN), false),
            ("established", tcp(SOURCE, 50_000, ACK), true),
            (
                "established by its SYN with ACK",
                tcp(SOURCE, 50_000, SYN | ACK),
                true,
            ),
            (
                "flags that nobody sends",
                tcp(SOURCE, 443, SYN | FIN),
                false,
            ),
            ("a query", udp(SOURCE, 53), false),
            ("one of IPv6", udp(SOURCE_V6, 5353), false),
            ("established by a query", udp(SOURCE, 50_000), true),
            ("an echo request", icmp(SOURCE, 8, 0), false),
            ("related", icmp(SOURCE, 11, 0), true),
            ("a timestamp", icmp(SOURCE, 13, 0), false),
            ("an echo request of IPv6", icmp(SOURCE_V6, 128, 0), true),
            ("an error", icmp(SOURCE_V6, 1, 0), true),
            ("a neighbour", icmp(LINK_LOCAL, 136, 0), true),
            ("a home agent", icmp(SOURCE_V6, 144, 0), false),
            ("a certificate path", icmp(SOURCE_V6, 149, 0), true),
            (
                "a multicast listener of the link",
                icmp(LINK_LOCAL, 143, 0),
                true,
            ),
            ("of elsewhere", icmp(SOURCE_V6, 143, 0), false),
            (
                "a multicast router of the link",
                icmp(LINK_LOCAL, 153, 0),
                true,
            ),
            ("of elsewhere", icmp(SOURCE_V6, 151, 0), false),
            ("behind the last", icmp(LINK_LOCAL, 154, 0), false),
            ("another protocol", protocol_of(SOURCE, GRE, &[0; 8]), false),
            ("one of IPv6", protocol_of(SOURCE_V6, 132, &[0; 12]), false),
        ],
    );
}

/// Whether each frame passes, in this order, under a configuration and bans.
fn check_verdicts(config: &str, banned: &[&str], expected: &[Verdict]) {
    require_root!();
    let (_lab, service) = Service::in_lab(config).unwrap();
    for prefix in banned {
        service.rlctl_ok(&["ban", prefix]).unwrap();
    }
    let program = Attached::of(&service).unwrap();
    for (what, frame, passes) in expected {
        assert_eq!(program.passed(frame, 1).unwrap() == 1, *passes, "{what}");
    }
}
