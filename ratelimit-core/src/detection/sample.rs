//! A packet as detection sees it.

use std::net::IpAddr;

use ratelimit_common::{
    Cursor, Instant,
    parse::{
        self, LinkLayer, Payload, ipv4, ipv6,
        transport::{Fragment, UpperLayer},
    },
    sample::Socket,
};

use super::content::Content;
use crate::class::protocol::{TCP, UDP};

/// A sampled packet, and the number of packets it represents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sample {
    /// The arrival time.
    pub at: Instant,
    /// Number of packets it represents, including itself.
    pub packets: u32,
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub target: IpAddr,
    /// The bytes of its frame.
    pub bytes: u32,
    /// The ports that it comes from and goes to, if its protocol has ports.
    pub ports: Option<[u16; 2]>,
    /// The content.
    pub content: Content,
}

impl Sample {
    /// Reads a frame, from a cursor at its front. `None` when it is not an IP packet, or its
    /// addresses are cut off.
    pub fn read(
        at: Instant,
        packets: u32,
        frame: Cursor<'_>,
        link_layer: LinkLayer,
    ) -> Option<Self> {
        let (addresses, upper) = headers(frame, link_layer)?;
        let [source, target] = addresses;
        Some(Self {
            at,
            packets,
            source,
            target,
            bytes: frame.frame_bytes(),
            ports: ports(upper, frame),
            content: Content::read(upper, is_from_link(source, frame, link_layer), frame),
        })
    }

    /// Adds the socket that the kernel has for the packet.
    pub fn with_socket(mut self, socket: Socket) -> Self {
        self.content = self.content.with_socket(socket);
        self
    }
}

/// Whether an IPv6 packet was sent on the link itself. Routers decrement the hop limit, so
/// forwarded packets never have 255, as neighbour discovery does (RFC 4861, 3.1). Nor do routers
/// forward link-local sources, which send multicast listener messages with a hop limit of 1 (RFC
/// 3810, 5), as does a host without an address (RFC 3590).
fn is_from_link(source: IpAddr, mut frame: Cursor<'_>, link_layer: LinkLayer) -> bool {
    let (IpAddr::V6(source), Ok(_)) = (source, parse::payload(&mut frame, link_layer)) else {
        return false;
    };
    match ipv6::hop_limit(frame) {
        Some(255) => true,
        Some(1) => source.is_unicast_link_local() || source.is_unspecified(),
        _ => false,
    }
}

fn ports(upper: UpperLayer, frame: Cursor<'_>) -> Option<[u16; 2]> {
    let has_ports = matches!(upper.protocol(), TCP | UDP) && upper.fragment() != Fragment::Later;
    let ports = has_ports.then(|| upper.ports(frame)).flatten()?;
    Some(ports.map(u16::from_be_bytes))
}

/// Returns source and destination addresses and the upper layer, from a cursor at the start of the
/// frame. `None` if it is not an IP packet, or the addresses are truncated.
pub fn headers(frame: Cursor<'_>, link_layer: LinkLayer) -> Option<([IpAddr; 2], UpperLayer)> {
    let mut cursor = frame;
    Some(match parse::payload(&mut cursor, link_layer).ok()? {
        Payload::Ipv4 => {
            let addresses = ipv4::addresses(cursor)?;
            let flow = ipv4::flow(&mut cursor)?;
            (
                addresses.map(|address| IpAddr::V4(address.into())),
                flow.upper,
            )
        }
        Payload::Ipv6 => {
            let addresses = ipv6::addresses(cursor)?;
            let flow = ipv6::flow(&mut cursor, ipv6::walk)?;
            (
                addresses.map(|address| IpAddr::V6(address.into())),
                flow.upper,
            )
        }
        Payload::Other => return None,
    })
}
