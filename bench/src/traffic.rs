//! Traffic: a frame, and the sources that are drawn for it.

use std::net::{Ipv4Addr, Ipv6Addr};

use ratelimit_core::ip_family::IpFamily;
use ratelimit_tests::{
    Frame,
    packet::{ACK, SYN, VXLAN_PORT},
};

use crate::draw::Draw;

/// The first source of IPv4, 10.0.0.0; that of IPv6 has the same 32 bits behind 2001:db8.
pub const FIRST: u32 = 0x0a00_0000;

/// The source of packets in tunnels.
const INSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

/// Bytes of the frames: the smallest that Ethernet has, without the checksum, and room for a UDP
/// header over IPv6.
const FRAME_BYTES: usize = 62;

/// The number of sources.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sources {
    /// One.
    Hot,
    /// 2^10.
    Thousand,
    /// 2^16.
    Many,
    /// 2^20.
    Million,
    /// 2^31, from 10.0.0.0 to 137.255.255.255: forged ones, that hardly ever come back.
    Flood,
}

impl Sources {
    /// The word for it in the name of a case.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Thousand => "1024",
            Self::Many => "65536",
            Self::Million => "1048576",
            Self::Flood => "flood",
        }
    }

    /// Returns the number of sources.
    pub const fn count(self) -> u64 {
        1 << self.bits()
    }

    const fn bits(self) -> u32 {
        match self {
            Self::Hot => 0,
            Self::Thousand => 10,
            Self::Many => 16,
            Self::Million => 20,
            Self::Flood => 31,
        }
    }
}

/// The CPUs that send, and the sources whose state they use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cpus {
    /// One CPU.
    One,
    /// Two CPUs, with sources of their own.
    TwoApart,
    /// Two CPUs, with the same sources.
    TwoShared,
}

impl Cpus {
    /// Returns the number of CPUs.
    pub const fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::TwoApart | Self::TwoShared => 2,
        }
    }
}

/// The content of packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// Datagrams, to a port that serves no DNS.
    Datagrams,
    /// Datagrams to the port of DNS.
    Queries,
    /// TCP segments that only acknowledge.
    Acknowledgements,
    /// TCP segments that ask for connections.
    Syns,
    /// Datagrams of one source, in IP in IP.
    InIp,
    /// Datagrams of one source, in VXLAN.
    InVxlan,
}

impl Content {
    const fn label(self) -> &'static str {
        match self {
            Self::Datagrams => "",
            Self::Queries => "/dns",
            Self::Acknowledgements => "/tcp-ack",
            Self::Syns => "/tcp-syn",
            Self::InIp => "/in-ipip",
            Self::InVxlan => "/in-vxlan",
        }
    }
}

/// The traffic of a case.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// IPv4 or IPv6.
    pub family: IpFamily,
    /// The sources.
    pub sources: Sources,
    /// The packets.
    pub content: Content,
    /// The CPUs that it is sent on.
    pub cpus: Cpus,
    /// The first source.
    pub first: u32,
}

impl Traffic {
    /// Traffic on one CPU, from [`FIRST`] on.
    pub const fn new(family: IpFamily, sources: Sources) -> Self {
        Self {
            family,
            sources,
            content: Content::Datagrams,
            cpus: Cpus::One,
            first: FIRST,
        }
    }

    /// Replaces the content.
    pub const fn of(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// Replaces the CPUs.
    pub const fn on(self, cpus: Cpus) -> Self {
        Self { cpus, ..self }
    }

    /// `ipv4/hot`, `ipv6/1024/2-cpus-shared`
    pub fn label(self) -> String {
        let family = family_label(self.family);
        let cpus = match self.cpus {
            Cpus::One => "",
            Cpus::TwoApart => "/2-cpus-apart",
            Cpus::TwoShared => "/2-cpus-shared",
        };
        format!(
            "{family}/{}{}{cpus}",
            self.sources.label(),
            self.content.label()
        )
    }

    /// The frame into which sources are written.
    pub fn frame(self) -> Vec<u8> {
        let frame = match self.family {
            IpFamily::V4 => Frame::ethernet().ipv4(ipv4(self.first)),
            IpFamily::V6 => Frame::ethernet().ipv6(ipv6(self.first)),
        };
        match self.content {
            Content::Datagrams => frame.udp(443),
            Content::Queries => frame.udp(53),
            Content::Acknowledgements => frame.tcp(443, ACK),
            Content::Syns => frame.tcp(443, SYN),
            Content::InIp => frame.ipv4(INSIDE).udp(53),
            Content::InVxlan => frame.vxlan(VXLAN_PORT).ipv4(INSIDE).udp(53),
        }
        .pad_to(FRAME_BYTES)
        .build()
    }

    /// Returns the sequence of sources on a CPU.
    pub fn draw(self, cpu: usize) -> Draw {
        let mask = u32::MAX.checked_shr(32 - self.sources.bits()).unwrap_or(0);
        let apart = match (self.cpus, cpu) {
            (Cpus::TwoApart, 1) => mask.wrapping_add(1),
            _ => 0,
        };
        Draw {
            state: cpu as u64,
            first: self.first.wrapping_add(apart),
            mask,
            ..Draw::default()
        }
    }
}

/// `ipv4` or `ipv6`.
pub const fn family_label(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ipv4",
        IpFamily::V6 => "ipv6",
    }
}

/// The IPv4 source that the harness makes of 32 bits.
pub const fn ipv4(bits: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(bits)
}

/// The IPv6 source that the harness makes of 32 bits: they tell the /64.
pub const fn ipv6(bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits((0x2001_0db8 << 96) | ((bits as u128) << 64) | 1)
}
