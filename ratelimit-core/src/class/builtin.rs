//! The classes that need no definition.

use super::{
    Class, ClassParts, Fragments, Numbers, SourceShape, TcpFlags,
    catalogue::Selected,
    protocol::{ICMP, ICMPV6, TCP, UDP},
};

/// The names of the built-in classes.
pub const BUILT_IN: [&str; 25] = [
    "tcp",
    "udp",
    "icmp",
    "tcp-syn",
    "tcp-syn-ack",
    "tcp-rst",
    "tcp-invalid",
    "fragments",
    "later-fragments",
    "reflection",
    "reflection-dns",
    "reflection-ntp",
    "reflection-memcached",
    "reflection-ssdp",
    "reflection-cldap",
    "reflection-chargen",
    "reflection-snmp",
    "reflection-portmap",
    "reflection-ws-discovery",
    "reflection-ard",
    "land",
    "bogons",
    "source-port-0",
    "tcp-christmas",
    "other",
];

/// Ports of UDP services that answer small requests with large answers, also to forged sources.
///
/// US-CERT alert TA14-017A, "UDP-Based Amplification Attacks" (2014, revised until 2019), for
/// services with a fixed port (after Rossow, "Amplification Hell", NDSS 2014), and services abused
/// since, such as SLP (CVE-2023-29552) and IKE. QUIC, `OpenVPN` and STUN are excluded because hosts
/// use such servers all the time.
const REFLECTORS: [u16; 31] = [
    17,     // quote of the day
    19,     // character generator
    53,     // DNS
    69,     // TFTP
    111,    // portmapper
    123,    // NTP
    137,    // NetBIOS
    161,    // SNMP
    389,    // CLDAP
    427,    // SLP
    500,    // IKE
    520,    // RIPv1
    623,    // IPMI
    1434,   // SQL Server
    1701,   // L2TP
    1900,   // SSDP
    3283,   // Apple Remote Desktop
    3702,   // WS-Discovery
    4500,   // IKE behind NAT
    5060,   // SIP
    5093,   // Sentinel
    5353,   // multicast DNS
    5683,   // CoAP
    10_001, // Ubiquiti discovery
    10_074, // Mitel MiCollab
    11_211, // memcached
    27_015, // Steam
    27_960, // Quake
    32_410, // Plex
    32_414, // Plex
    37_810, // DVR discovery
];

/// The name of a class, the port that its packets come from, and the first and the last of their
/// lengths.
type Amplified = (&'static str, u16, &'static [(u16, u16)]);

/// Amplified answers of single services, by source port and the bytes of the IP packet (IPv4,
/// without options).
///
/// Ordinary answers of these services have other lengths, as far as that is known.
const AMPLIFIED: [Amplified; 10] = [
    // A server that follows DNS Flag Day 2020 answers with 1,232 bytes at most, behind 28 or 48 of
    // headers.
    ("reflection-dns", 53, &[(1281, u16::MAX)]),
    // `monlist`: eight bytes and up to six entries of 72. A full part of `readvar` (RFC 9327, 3):
    // 12 and 468.
    (
        "reflection-ntp",
        123,
        &[
            (108, 108),
            (180, 180),
            (252, 252),
            (324, 324),
            (396, 396),
            (468, 468),
            (508, 508),
        ],
    ),
    // The header of memcached over UDP alone has eight bytes.
    ("reflection-memcached", 11_211, &[(37, u16::MAX)]),
    // The answer to M-SEARCH begins with a status line and has five headers at least.
    ("reflection-ssdp", 1900, &[(128, u16::MAX)]),
    // A ping of a domain controller is answered by a few hundred bytes, a search of the root by
    // 1,500 and more.
    ("reflection-cldap", 389, &[(1000, u16::MAX)]),
    ("reflection-chargen", 19, &[(29, u16::MAX)]),
    // Every manager accepts 484 bytes (RFC 3417, 3.2.1); a table read in bulk has more than a
    // thousand.
    ("reflection-snmp", 161, &[(1000, u16::MAX)]),
    // A port that was asked for is 28 bytes of answer; the list of all is a hundred and more.
    ("reflection-portmap", 111, &[(96, u16::MAX)]),
    ("reflection-ws-discovery", 3702, &[(500, u16::MAX)]),
    ("reflection-ard", 3283, &[(1000, u16::MAX)]),
];

/// Whether a port belongs to a service that is abused for amplification.
pub fn is_reflector(port: u16) -> bool {
    REFLECTORS.contains(&port)
}

/// The built-in class of a name.
pub fn of(name: &str) -> Option<Selected> {
    let protocols = |numbers: &[u8]| ClassParts {
        protocols: Some(numbers.iter().copied().collect()),
        ..ClassParts::default()
    };
    let tcp = |flags| ClassParts {
        tcp: Some(flags),
        ..ClassParts::default()
    };
    let fragments = |fragments| ClassParts {
        fragment: Some(fragments),
        ..ClassParts::default()
    };
    let source = |source| ClassParts {
        source: Some(source),
        ..ClassParts::default()
    };
    let parts = match name {
        "tcp" => protocols(&[TCP]),
        "udp" => protocols(&[UDP]),
        "icmp" => protocols(&[ICMP, ICMPV6]),
        "tcp-syn" => tcp(TcpFlags::Syn),
        "tcp-syn-ack" => tcp(TcpFlags::SYN_ACK),
        "tcp-rst" => tcp(TcpFlags::RST),
        "tcp-invalid" => tcp(TcpFlags::Invalid),
        "fragments" => fragments(Fragments::ANY),
        "later-fragments" => fragments(Fragments::Later),
        "reflection" => ClassParts {
            source_ports: Some(
                REFLECTORS
                    .iter()
                    .map(|port| *port..=*port)
                    .collect::<Numbers>(),
            ),
            ..protocols(&[UDP])
        },
        "land" => source(SourceShape::Land),
        "bogons" => source(SourceShape::Bogon),
        "source-port-0" => ClassParts {
            source_ports: Some([0..=0].into_iter().collect()),
            ..protocols(&[TCP, UDP])
        },
        // Without ACK. A segment with all flags is also `tcp-invalid`.
        "tcp-christmas" => tcp(TcpFlags::CHRISTMAS),
        "other" => return Some(Selected::Other),
        _ => {
            let (_, port, lengths) = AMPLIFIED.iter().find(|(known, ..)| *known == name)?;
            let lengths = lengths.iter().map(|(first, last)| *first..=*last);
            ClassParts {
                source_ports: Some([*port..=*port].into_iter().collect()),
                length: Some(lengths.collect()),
                ..protocols(&[UDP])
            }
        }
    };
    Some(Selected::Class(
        Class::new(parts).expect("each has packets"),
    ))
}
