//! Frames, put together header by header.
//!
//! Each call appends a header and writes its number into the header before it, so any order of
//! headers can be written down. [`Frame::build`] fills in lengths and the IPv4 checksum, which the
//! network stack behind the program looks at.

mod extension;
mod ipv4;
mod tunnel;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use extension::Extension;
pub use ipv4::{Ipv4Options, checksum};
pub use tunnel::{ENDPOINT_V4, ENDPOINT_V6, GENEVE_PORT, VXLAN_PORT, around, tunnels};

/// Customer VLAN tag (802.1Q).
pub const VLAN: u16 = 0x8100;
/// Service VLAN tag (802.1ad).
pub const QINQ: u16 = 0x88a8;
/// Service VLAN tag of older equipment.
pub const QINQ_OLD: u16 = 0x9100;

/// TCP flags.
pub const SYN: u8 = 0x02;
/// TCP flags.
pub const ACK: u8 = 0x10;
/// TCP flags.
pub const RST: u8 = 0x04;

/// The bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// The bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// The bytes of an IPv6 header.
pub const IPV6_BYTES: usize = 40;

/// A frame under construction.
#[derive(Clone, Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    next: Next,
    networks: Vec<Network>,
}

/// The position of the next header's number.
#[derive(Clone, Copy, Debug)]
enum Next {
    EtherType(usize),
    Protocol(usize),
    Ppp(usize),
    Nowhere,
}

/// A network header whose length is known when the frame is whole.
#[derive(Clone, Copy, Debug)]
enum Network {
    Ipv4(usize),
    Ipv6(usize),
}

/// The smallest datagram of a source.
pub fn datagram(source: impl Into<IpAddr>) -> Vec<u8> {
    let frame = Frame::ethernet().ip(source.into());
    frame.udp(53).pad_to(60).build()
}

impl Frame {
    /// An Ethernet header, between two locally administered addresses.
    pub fn ethernet() -> Self {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let next = Next::EtherType(bytes.len());
        bytes.extend([0xff, 0xff]);
        Self {
            bytes,
            next,
            networks: vec![],
        }
    }

    /// The frame goes to every host of the link.
    pub fn broadcast(mut self) -> Self {
        self.bytes[..6].fill(0xff);
        self
    }

    /// A VLAN tag of the type `tag`, with the VLAN `id`.
    pub fn vlan(mut self, tag: u16, id: u16) -> Self {
        self.announce(tag, 0);
        self.bytes.extend(id.to_be_bytes());
        self.next = Next::EtherType(self.bytes.len());
        self.bytes.extend([0xff, 0xff]);
        self
    }

    /// An IPv4 header.
    pub fn ipv4(self, source: Ipv4Addr) -> Self {
        self.ipv4_with(source, &Ipv4Options::default())
    }

    /// An IPv4 or an IPv6 header.
    pub fn ip(self, source: IpAddr) -> Self {
        match source {
            IpAddr::V4(source) => self.ipv4(source),
            IpAddr::V6(source) => self.ipv6(source),
        }
    }

    /// An IPv4 header with options, or of a fragment.
    pub fn ipv4_with(mut self, source: Ipv4Addr, options: &Ipv4Options) -> Self {
        self.announce(0x0800, 4);
        let start = self.bytes.len();
        self.bytes.extend(options.header(source));
        self.next = Next::Protocol(start + 9);
        self.networks.push(Network::Ipv4(start));
        self
    }

    /// An IPv6 header with a hop limit of 64.
    pub fn ipv6(self, source: Ipv6Addr) -> Self {
        self.ipv6_with(source, 64)
    }

    /// An IPv6 header.
    pub fn ipv6_with(mut self, source: Ipv6Addr, hop_limit: u8) -> Self {
        const DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);
        self.announce(0x86dd, 41);
        let start = self.bytes.len();
        self.bytes.extend([0x60, 0, 0, 0, 0, 0, 59, hop_limit]);
        self.bytes.extend(source.octets());
        self.bytes.extend(DESTINATION.octets());
        self.next = Next::Protocol(start + 6);
        self.networks.push(Network::Ipv6(start));
        self
    }

    /// An IPv6 extension header.
    pub fn extension(mut self, extension: Extension) -> Self {
        self.announce(0xffff, extension.number());
        self.next = Next::Protocol(self.bytes.len());
        self.bytes.extend(extension.header());
        self
    }

    /// A TCP header with `flags`.
    pub fn tcp(self, port: u16, flags: u8) -> Self {
        let [high, low] = port.to_be_bytes();
        let mut header = [0; 20];
        header[..4].copy_from_slice(&[0x30, 0x39, high, low]);
        header[12..14].copy_from_slice(&[5 << 4, flags]);
        self.protocol(6, &header)
    }

    /// A UDP header.
    pub fn udp(self, port: u16) -> Self {
        let [high, low] = port.to_be_bytes();
        self.protocol(17, &[0x30, 0x39, high, low, 0, 8, 0, 0])
    }

    /// A datagram to `port` that carries a payload.
    pub fn datagram(self, port: u16, payload: &[u8]) -> Self {
        let bytes = u16::try_from(8 + payload.len()).expect("it is short");
        let words = [12_345, port, bytes, 0].map(u16::to_be_bytes);
        self.protocol(17, words.as_flattened()).payload(payload)
    }

    /// An ICMP message of the type `kind`.
    pub fn icmp(self, kind: u8) -> Self {
        self.protocol(1, &[kind, 0, 0, 0, 0, 1, 0, 1])
    }

    /// An `ICMPv6` message of the type `kind`.
    pub fn icmpv6(self, kind: u8) -> Self {
        self.protocol(58, &[kind, 0, 0, 0, 0, 1, 0, 1])
            .payload(&[0; 16])
    }

    /// A GRE header, for a network header behind it.
    pub fn gre(mut self) -> Self {
        self = self.protocol(47, &[0, 0]);
        self.next = Next::EtherType(self.bytes.len());
        self.bytes.extend([0, 0]);
        self
    }

    /// Any protocol by its number, with the bytes of its header.
    pub fn protocol(mut self, number: u8, header: &[u8]) -> Self {
        self.announce(0xffff, number);
        self.next = Next::Nowhere;
        self.payload(header)
    }

    /// Bytes that no header announces.
    pub fn payload(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// Zeroes up to a frame of `bytes` bytes.
    pub fn pad_to(mut self, bytes: usize) -> Self {
        self.bytes.resize(bytes.max(self.bytes.len()), 0);
        self
    }

    /// The frame, with the lengths that it has.
    pub fn build(mut self) -> Vec<u8> {
        for network in std::mem::take(&mut self.networks) {
            match network {
                Network::Ipv4(start) => ipv4::finish(&mut self.bytes[start..]),
                Network::Ipv6(start) => finish_ipv6(&mut self.bytes[start..]),
            }
        }
        self.bytes
    }

    /// The frame to a host, with the checksums that its stack asks for. It has no VLAN tag, no
    /// option and no extension header.
    pub fn build_to(self, destination: IpAddr) -> Vec<u8> {
        let mut frame = self.build();
        let ends = match destination {
            IpAddr::V4(address) => {
                frame[30..34].copy_from_slice(&address.octets());
                ipv4::finish(&mut frame[ETHERNET_BYTES..]);
                26
            }
            IpAddr::V6(address) => {
                frame[38..54].copy_from_slice(&address.octets());
                22
            }
        };
        let addresses = if destination.is_ipv4() { 8 } else { 32 };
        let protocol = frame[if destination.is_ipv4() { 23 } else { 20 }];
        let header = ends + addresses;
        let (place, end) = match protocol {
            6 => (16, frame.len()),
            17 => (
                6,
                header + usize::from(frame[header + 5]) + (usize::from(frame[header + 4]) << 8),
            ),
            _ => return frame,
        };
        // The pseudo header with protocol and length is only part of the sum.
        let length = u32::try_from(end - header).expect("a frame is short");
        let checksum = checksum(&frame[ends..end], u32::from(protocol) + length);
        frame[header + place..header + place + 2].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    /// Writes into the last header what follows it.
    fn announce(&mut self, ethertype: u16, protocol: u8) {
        match self.next {
            Next::EtherType(at) => {
                self.bytes[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
            }
            Next::Protocol(at) => self.bytes[at] = protocol,
            Next::Ppp(at) => {
                self.bytes[at + 1] = if ethertype == 0x0800 { 0x21 } else { 0x57 };
            }
            Next::Nowhere => {}
        }
    }
}

fn finish_ipv6(packet: &mut [u8]) {
    let payload = u16::try_from(packet.len() - IPV6_BYTES).unwrap_or(0);
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
}
