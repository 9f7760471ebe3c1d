//! Frames as hosts send them, with their lengths and checksums, and the sources of frames that arrive.

use std::{
    fmt, iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, PacketBuilder};

/// The protected end of the link.
pub const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The end that the traffic comes from.
pub const OUTSIDE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

const HOST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PORTS: (u16, u16) = (40_000, 443);
const HOP_LIMIT: u8 = 64;
const MACS_BYTES: usize = 12;
/// The type of frame that IEEE 802 leaves to experiments.
const MARKER: u16 = 0x88b5;

/// What stands above the IP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// A datagram.
    Udp,
    /// The opening of a connection.
    Tcp,
    /// An echo request.
    Icmp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Icmp => "ICMP",
        })
    }
}

/// A frame from `source` to the host.
pub fn build(source: IpAddr, protocol: Protocol, payload_bytes: usize) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(OUTSIDE_MAC, HOST_MAC);
    let ip = match source {
        IpAddr::V4(source) => ethernet.ipv4(source.octets(), HOST_V4.octets(), HOP_LIMIT),
        IpAddr::V6(source) => ethernet.ipv6(source.octets(), HOST_V6.octets(), HOP_LIMIT),
    };
    let payload: Vec<u8> = iter::repeat_n(0, payload_bytes).collect();
    let mut frame = Vec::new();
    match (protocol, source) {
        (Protocol::Udp, _) => ip.udp(PORTS.0, PORTS.1).write(&mut frame, &payload),
        (Protocol::Tcp, _) => {
            let syn = ip.tcp(PORTS.0, PORTS.1, 1, u16::MAX).syn();
            syn.write(&mut frame, &payload)
        }
        (Protocol::Icmp, IpAddr::V4(_)) => ip.icmpv4_echo_request(1, 1).write(&mut frame, &payload),
        (Protocol::Icmp, IpAddr::V6(_)) => ip.icmpv6_echo_request(1, 1).write(&mut frame, &payload),
    }
    .expect("a vector takes what is written, and the payload is far below 64 KiB");
    frame
}

/// The frame with a tag of the VLAN `id`.
pub fn tagged(mut frame: Vec<u8>, id: u16) -> Vec<u8> {
    let tag = [EtherType::VLAN_TAGGED_FRAME.0, id].map(u16::to_be_bytes);
    frame.splice(MACS_BYTES..MACS_BYTES, tag.concat());
    frame
}

/// A frame that is not IP and passes any limit, with a number by which it is known again.
pub fn marker(number: u32) -> Vec<u8> {
    let mut frame = [HOST_MAC, OUTSIDE_MAC].concat();
    frame.extend(MARKER.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// The number of a marker.
pub fn marker_number(frame: &[u8]) -> Option<u32> {
    let rest = frame.get(MACS_BYTES..)?;
    let number = rest.strip_prefix(&MARKER.to_be_bytes())?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Whom an IP packet says it is from, whatever VLAN it is in.
pub fn source(frame: &[u8]) -> Option<IpAddr> {
    match LaxSlicedPacket::from_ethernet(frame).ok()?.net? {
        LaxNetSlice::Ipv4(packet) => Some(packet.header().source_addr().into()),
        LaxNetSlice::Ipv6(packet) => Some(packet.header().source_addr().into()),
        LaxNetSlice::Arp(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "198.51.100.1";
    const V6: &str = "2001:db8:1::1";

    #[test]
    fn checksums_are_right() {
        for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::Icmp] {
            for payload_bytes in [0, 1, 18, 957] {
                check_ipv4(&build(V4.parse().unwrap(), protocol, payload_bytes));
                check_ipv6(&build(V6.parse().unwrap(), protocol, payload_bytes));
            }
        }
    }

    #[test]
    fn the_source_is_found_behind_a_tag_too() {
        for text in [V4, V6] {
            let address = text.parse().unwrap();
            let frame = build(address, Protocol::Tcp, 0);
            assert_eq!(source(&frame), Some(address));
            assert_eq!(source(&tagged(frame, 100)), Some(address));
        }
    }

    #[test]
    fn a_marker_is_known_by_its_number_and_has_no_source() {
        assert_eq!(marker_number(&marker(7)), Some(7));
        assert_eq!(source(&marker(7)), None);
        let other = build(V4.parse().unwrap(), Protocol::Udp, 0);
        assert_eq!(marker_number(&other), None);
    }

    fn check_ipv4(frame: &[u8]) {
        let (header, rest) = frame[14..].split_at(20);
        assert_eq!(sum(header, 0), 0xffff);
        let protocol = header[9];
        let pseudo = if protocol == 1 { &[] } else { &header[12..20] };
        assert_eq!(sum(rest, pseudo_sum(pseudo, protocol, rest)), 0xffff);
    }

    fn check_ipv6(frame: &[u8]) {
        let (header, rest) = frame[14..].split_at(40);
        let start = pseudo_sum(&header[8..40], header[6], rest);
        assert_eq!(sum(rest, start), 0xffff);
    }

    /// The sum of the addresses, the protocol and the length; 0 for ICMP over IPv4, which covers itself alone.
    fn pseudo_sum(addresses: &[u8], protocol: u8, rest: &[u8]) -> u32 {
        if addresses.is_empty() {
            return 0;
        }
        sum(
            addresses,
            u32::from(protocol) + u32::try_from(rest.len()).unwrap(),
        )
    }

    /// The ones' complement sum of RFC 1071; with its checksum in it, 0xffff.
    fn sum(bytes: &[u8], start: u32) -> u32 {
        let words = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        let mut sum = words.fold(start, |sum, word| sum + word);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }
}
