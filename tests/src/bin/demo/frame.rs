//! What the demo knows of frames: what its own are, and whom those that arrive are from.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use ratelimit_tests::{
    Frame,
    packet::{ETHERNET_BYTES, QINQ, SYN, VLAN},
};

const PORT: u16 = 443;
/// Where the type of a frame stands.
const ETHERTYPE_AT: usize = ETHERNET_BYTES - 2;
const TAG_BYTES: usize = 4;
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

/// A frame from `source`, in the VLAN that is named.
pub fn from(source: IpAddr, protocol: Protocol, vlan: Option<u16>) -> Frame {
    let ethernet = Frame::ethernet();
    let link = match vlan {
        Some(id) => ethernet.vlan(VLAN, id),
        None => ethernet,
    };
    let packet = match source {
        IpAddr::V4(source) => link.ipv4(source),
        IpAddr::V6(source) => link.ipv6(source),
    };
    match (protocol, source) {
        (Protocol::Udp, _) => packet.udp(PORT),
        (Protocol::Tcp, _) => packet.tcp(PORT, SYN),
        (Protocol::Icmp, IpAddr::V4(_)) => packet.icmp(8),
        (Protocol::Icmp, IpAddr::V6(_)) => packet.icmpv6(128),
    }
}

/// A frame that is not IP and passes any limit, with a number by which it is known again.
pub fn marker(number: u32) -> Vec<u8> {
    let mut frame = Frame::ethernet().build();
    frame.truncate(ETHERTYPE_AT);
    frame.extend(MARKER.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// The number of a marker.
pub fn marker_number(frame: &[u8]) -> Option<u32> {
    let rest = frame.get(ETHERTYPE_AT..)?;
    let number = rest.strip_prefix(&MARKER.to_be_bytes())?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Whom an IP packet says it is from, whatever VLAN it is in.
pub fn source(frame: &[u8]) -> Option<IpAddr> {
    let mut at = ETHERTYPE_AT;
    loop {
        let (ethertype, packet) = frame.get(at..)?.split_first_chunk()?;
        match u16::from_be_bytes(*ethertype) {
            VLAN | QINQ => at += TAG_BYTES,
            0x0800 => return packet.get(12..)?.first_chunk::<4>().map(|&v4| v4.into()),
            0x86dd => {
                let source = packet.get(8..)?.first_chunk::<16>();
                return source.map(|&v6| Ipv6Addr::from(v6).into());
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_found_behind_a_tag_too() {
        for text in ["198.51.100.1", "2001:db8:1::1"] {
            let address = text.parse().unwrap();
            for vlan in [None, Some(100)] {
                let frame = from(address, Protocol::Tcp, vlan).build();
                assert_eq!(source(&frame), Some(address));
            }
        }
    }

    #[test]
    fn a_marker_is_known_by_its_number_and_has_no_source() {
        assert_eq!(marker_number(&marker(7)), Some(7));
        assert_eq!(source(&marker(7)), None);
        let other = from("198.51.100.1".parse().unwrap(), Protocol::Udp, None).build();
        assert_eq!(marker_number(&other), None);
    }
}
