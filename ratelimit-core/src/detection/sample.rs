//! A packet as detection sees it.

use std::net::IpAddr;

use ratelimit_common::{
    Cursor, Instant,
    class::NO_PORT,
    parse::{
        self, LinkLayer, Payload, ipv4, ipv6,
        transport::{Fragment, UpperLayer},
    },
};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where the flags stand in a TCP header.
const FLAGS_AT: u16 = 13;
const FIN: u8 = 1 << 0;
const SYN: u8 = 1 << 1;
const RST: u8 = 1 << 2;
const ACK: u8 = 1 << 4;
/// Both flags of congestion notification.
const CONGESTION: u8 = 0xc0;

/// A packet that was looked at, and how many it stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sample {
    /// When it came.
    pub at: Instant,
    /// The packets that it stands for, itself included.
    pub packets: u32,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to.
    pub target: IpAddr,
    /// What it is.
    pub content: Content,
}

/// What a packet is, as far as attacks are told apart by it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// A TCP segment that asks for a connection.
    Request,
    /// A TCP segment with flags that nobody sends, or a request that has both congestion flags.
    OddFlags,
    /// A TCP segment that opens or ends a connection, or of which no more is known than that it may be of one.
    Acknowledging,
    /// An acknowledgement, with or without data, of a connection with this host.
    Connected {
        /// The port that it goes to.
        port: u16,
    },
    /// An acknowledgement of no connection with this host: it may be of one that is forwarded.
    Stray {
        /// The port that it goes to.
        port: u16,
    },
    /// A UDP datagram from a port of a service that amplifies.
    Answer {
        /// The port.
        port: u16,
    },
    /// Anything else.
    Other,
}

impl Sample {
    /// Reads a frame, from a cursor at its front. `None` when it is no IP packet, or its addresses are cut off.
    #[must_use]
    pub fn read(
        at: Instant,
        packets: u32,
        frame: Cursor<'_>,
        link_layer: LinkLayer,
    ) -> Option<Self> {
        let mut cursor = frame;
        let (addresses, upper) = match parse::payload(&mut cursor, link_layer).ok()? {
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
        };
        let [source, target] = addresses;
        Some(Self {
            at,
            packets,
            source,
            target,
            content: content(upper, frame),
        })
    }

    /// The same, of a connection with this host.
    #[must_use]
    pub fn connected(mut self) -> Self {
        if let Content::Stray { port } = self.content {
            self.content = Content::Connected { port };
        }
        self
    }
}

fn content(upper: UpperLayer, frame: Cursor<'_>) -> Content {
    if upper.fragment == Fragment::Later {
        return Content::Other;
    }
    let transport = upper.transport(frame);
    match upper.protocol {
        TCP => {
            let mut flags = frame;
            flags.skip(upper.offset.saturating_add(FLAGS_AT));
            let flags = flags.take::<u8>().copied().unwrap_or(ACK);
            if transport.kind.is_invalid() || flags & (CONGESTION | SYN | ACK) == CONGESTION | SYN {
                Content::OddFlags
            } else if transport.kind.is_syn() {
                Content::Request
            } else if flags & (FIN | SYN | RST | ACK) == ACK && upper.fragment == Fragment::Whole {
                let port = u16::try_from(transport.destination_port);
                port.map_or(Content::Acknowledging, |port| Content::Stray { port })
            } else {
                Content::Acknowledging
            }
        }
        UDP => {
            let ports = [transport.source_port, transport.destination_port];
            answer(ports, frame.frame_bytes()).unwrap_or(Content::Other)
        }
        _ => Content::Other,
    }
}

/// Services that answer more than they are asked, over UDP. Those of CISA's alert TA14-017A, and those found since.
const AMPLIFIERS: [u16; 20] = [
    17, 19, 53, 69, 111, 123, 137, 161, 389, 500, 520, 1194, 1434, 1900, 3283, 3702, 4500, 5353,
    11211, 27015,
];
const DNS: u16 = 53;
/// Answers of a name server that nobody would ask for to do harm are smaller.
const DNS_BYTES: u32 = 400;

/// An answer goes to the port that the question came from. Between equal ports peers talk: time servers, gateways of a VPN.
fn answer([source, destination]: [u32; 2], frame_bytes: u32) -> Option<Content> {
    if source == destination || source == NO_PORT {
        return None;
    }
    let port = u16::try_from(source).ok()?;
    let is_large = port != DNS || frame_bytes >= DNS_BYTES;
    (AMPLIFIERS.contains(&port) && is_large).then_some(Content::Answer { port })
}
