//! The classes that need no definition.

use super::{
    Class, ClassParts, Fragments, Numbers, TcpFlags,
    catalogue::Selected,
    protocol::{ICMP, ICMPV6, TCP, UDP},
};

/// Their names.
pub const BUILT_IN: [&str; 11] = [
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
    "other",
];

/// Ports of UDP services that answer small requests with large answers, whoever is said to have asked.
///
/// US-CERT alert TA14-017A, "UDP-Based Amplification Attacks" (2014, revised until 2019), as far as a service has a port
/// of its own (after Rossow, "Amplification Hell", NDSS 2014). Services that were abused since, such as SLP
/// (CVE-2023-29552) and IKE. QUIC, `OpenVPN` and STUN are left out: hosts ask such servers all the time.
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
    let parts = match name {
        "tcp" => protocols(&[TCP]),
        "udp" => protocols(&[UDP]),
        "icmp" => protocols(&[ICMP, ICMPV6]),
        "tcp-syn" => tcp(TcpFlags::Syn),
        "tcp-syn-ack" => tcp(TcpFlags::SYN_ACK),
        "tcp-rst" => tcp(TcpFlags::RST),
        "tcp-invalid" => tcp(TcpFlags::Invalid),
        "fragments" => fragments(Fragments::Any),
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
        "other" => return Some(Selected::Other),
        _ => return None,
    };
    Some(Selected::Class(
        Class::new(parts).expect("each has packets"),
    ))
}
