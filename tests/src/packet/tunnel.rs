//! Headers of tunnels, and all tunnels that there are around a packet.

use std::net::{Ipv4Addr, Ipv6Addr};

use ratelimit_common::parse::{Tunnels, tunnel::Tunnel};

use super::{Extension, Frame, Next, VLAN};

/// The UDP ports of VXLAN and GENEVE.
pub const VXLAN_PORT: u16 = 4789;
/// The UDP ports of VXLAN and GENEVE.
pub const GENEVE_PORT: u16 = 6081;

/// The IPv4 address of the far end of tunnels.
pub const ENDPOINT_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 77);
/// The IPv6 address of the far end of tunnels.
pub const ENDPOINT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 1);

/// Tunnels of every kind, at the ports that IANA has assigned.
pub fn tunnels() -> Tunnels {
    let kinds = Tunnel::ALL.into_iter();
    kinds.fold(Tunnels::NONE, |tunnels, kind| {
        tunnels.with(kind, kind.port().unwrap_or(0))
    })
}

impl Frame {
    /// A GRE header with these flags, and the options that they announce.
    pub fn gre_with(mut self, flags: u8) -> Self {
        self = self.protocol(47, &[flags, 0]);
        self.next = Next::EtherType(self.bytes.len());
        self.bytes.extend([0, 0]);
        let options = (flags & 0xb0).count_ones();
        self.payload(&[0xab; 4].repeat(options as usize))
    }

    /// UDP and VXLAN, with an Ethernet header inside.
    pub fn vxlan(self, port: u16) -> Self {
        self.udp(port).payload(&[8, 0, 0, 0, 0, 0, 7, 0]).inside()
    }

    /// Adds UDP and GENEVE with options of `words` words.
    pub fn geneve(mut self, port: u16, words: u8) -> Self {
        self = self.udp(port).payload(&[words, 0]);
        self.next = Next::EtherType(self.bytes.len());
        let options = [0xcd; 4].repeat(words.into());
        self.payload(&[0, 0, 0, 0, 7, 0]).payload(&options)
    }

    /// An Ethernet header inside of a tunnel.
    pub fn inside(mut self) -> Self {
        self.announce(0x6558, 0xff);
        self.bytes.extend([2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3]);
        self.next = Next::EtherType(self.bytes.len());
        self.payload(&[0xff, 0xff])
    }

    /// Adds MPLS labels.
    pub fn mpls(mut self, labels: usize) -> Self {
        self.announce(0x8847, 0xff);
        for label in 1..=labels {
            self.bytes.extend([0, 1, u8::from(label == labels), 64]);
        }
        self.next = Next::Nowhere;
        self
    }

    /// A PPP session over Ethernet.
    pub fn pppoe(mut self) -> Self {
        self.announce(0x8864, 0xff);
        self = self.payload(&[0x11, 0, 0, 9, 0, 100]);
        self.next = Next::Ppp(self.bytes.len());
        self.payload(&[0, 0])
    }
}

/// A tunnel: a frame up to the packet inside.
type Around = fn(Frame) -> Frame;

const BEHIND_IP: [(&str, Around); 16] = [
    ("ipip", |it| it),
    ("gre", |it| it.gre_with(0)),
    ("gre, key", |it| it.gre_with(0x20)),
    ("gre, checksum", |it| it.gre_with(0x80)),
    ("gre, sequence", |it| it.gre_with(0x10)),
    ("gre, key and sequence", |it| it.gre_with(0x30)),
    ("gre, all options", |it| it.gre_with(0xb0)),
    ("gre, Ethernet", |it| it.gre_with(0).inside()),
    ("gre, all options, Ethernet, VLAN", |it| {
        it.gre_with(0xb0).inside().vlan(VLAN, 9)
    }),
    ("vxlan", |it| it.vxlan(VXLAN_PORT)),
    ("vxlan, VLANs", |it| {
        it.vxlan(VXLAN_PORT).vlan(VLAN, 9).vlan(VLAN, 8)
    }),
    ("geneve", |it| it.geneve(GENEVE_PORT, 0)),
    ("geneve, options", |it| it.geneve(GENEVE_PORT, 3)),
    ("geneve, all options", |it| it.geneve(GENEVE_PORT, 63)),
    ("geneve, Ethernet", |it| it.geneve(GENEVE_PORT, 0).inside()),
    ("geneve, options, Ethernet, VLAN", |it| {
        it.geneve(GENEVE_PORT, 5).inside().vlan(VLAN, 9)
    }),
];

const BEHIND_ETHERNET: [(&str, Around); 4] = [
    ("mpls", |it| it.mpls(1)),
    ("mpls, 3 labels", |it| it.mpls(3)),
    ("mpls, 8 labels", |it| it.mpls(8)),
    ("pppoe", Frame::pppoe),
];

/// Frames up to the packet inside: every tunnel, behind IPv4 and IPv6 where that is possible, with
/// and without VLAN tags outside.
pub fn around() -> Vec<(String, Frame)> {
    let ethernet = || Frame::ethernet();
    let fronts = [
        ("", ethernet()),
        ("VLAN, ", ethernet().vlan(VLAN, 7)),
        ("VLANs, ", ethernet().vlan(super::QINQ, 7).vlan(VLAN, 8)),
    ];
    let mut all = vec![];
    for (tags, front) in fronts {
        let limit = Extension::Destination(0);
        for (family, outer) in [
            ("IPv4", front.clone().ipv4(ENDPOINT_V4)),
            ("IPv6", front.clone().ipv6(ENDPOINT_V6)),
            (
                "IPv6, limit",
                front.clone().ipv6(ENDPOINT_V6).extension(limit),
            ),
        ] {
            for (name, around) in BEHIND_IP {
                all.push((format!("{tags}{family}, {name}"), around(outer.clone())));
            }
        }
        for (name, around) in BEHIND_ETHERNET {
            all.push((format!("{tags}{name}"), around(front.clone())));
        }
    }
    all
}
