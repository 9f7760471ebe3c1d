//! Properties of packets that distinguish attacks.

use ratelimit_common::{
    Cursor,
    parse::transport::{Fragment, UpperLayer},
    sample::Socket,
};

use crate::class::protocol::{ICMP, ICMPV6, TCP, UDP};

const FIN: u8 = 1 << 0;
const SYN: u8 = 1 << 1;
const RST: u8 = 1 << 2;
const ACK: u8 = 1 << 4;
/// The two congestion notification flags.
const CONGESTION: u8 = 0xc0;

/// The content of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// A TCP segment that asks for a connection.
    Request,
    /// A TCP segment with an invalid combination of flags, or a request with both congestion flags.
    OddFlags,
    /// A TCP segment that accepts a connection.
    Acceptance {
        /// This host has asked for it.
        is_asked: bool,
    },
    /// A TCP segment that resets a connection.
    Reset {
        /// Part of a connection with this host.
        of_connection: bool,
    },
    /// A TCP segment that may belong to a connection; nothing more is known.
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
    /// An acknowledgement that ends a connection, of none with this host: it may be of one that is
    /// forwarded.
    Ending {
        /// The port that it goes to.
        port: u16,
    },
    /// A UDP datagram, or the first fragment of one.
    Datagram(Datagram),
    /// A message of ICMP that asks for an echo.
    EchoRequest,
    /// Another message, or a later fragment. Excludes neighbour and group messages on the link.
    Icmp,
    /// A later fragment of another protocol.
    LaterFragment,
    /// A packet of another protocol, by its number.
    Protocol(u8),
    /// Anything else.
    Other,
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// The port it comes from.
    pub source_port: u16,
    /// The port it goes to.
    pub destination_port: u16,
    /// More fragments follow it.
    pub is_first: bool,
    /// This host has a socket for it.
    pub has_socket: bool,
}

impl Content {
    /// Classifies `frame`, a cursor at its start; `is_from_link` if no router forwarded it.
    pub fn read(upper: UpperLayer, is_from_link: bool, frame: Cursor<'_>) -> Self {
        match (upper.protocol(), upper.fragment()) {
            (ICMP | ICMPV6, Fragment::Later) => Self::Icmp,
            (_, Fragment::Later) => Self::LaterFragment,
            (TCP, _) => segment(upper, frame),
            (UDP, fragment) => datagram(upper, fragment, frame),
            (protocol @ (ICMP | ICMPV6), _) => icmp(protocol, upper, is_from_link, frame),
            (protocol, _) => Self::Protocol(protocol),
        }
    }

    /// Adds the socket that the kernel has for the packet.
    pub fn with_socket(self, socket: Socket) -> Self {
        let of_connection = matches!(socket, Socket::Connecting | Socket::Connected);
        match self {
            Self::Stray { port } => match socket {
                Socket::Connected => Self::Connected { port },
                Socket::Connecting => Self::Acknowledging,
                Socket::None | Socket::Datagram => self,
            },
            Self::Ending { .. } if of_connection => Self::Acknowledging,
            Self::Acceptance { .. } => Self::Acceptance {
                is_asked: of_connection,
            },
            Self::Reset { .. } => Self::Reset { of_connection },
            Self::Datagram(datagram) => Self::Datagram(Datagram {
                has_socket: socket == Socket::Datagram,
                ..datagram
            }),
            other @ (Self::Request
            | Self::OddFlags
            | Self::Acknowledging
            | Self::Connected { .. }
            | Self::Ending { .. }
            | Self::EchoRequest
            | Self::Icmp
            | Self::LaterFragment
            | Self::Protocol(_)
            | Self::Other) => other,
        }
    }
}

fn segment(upper: UpperLayer, frame: Cursor<'_>) -> Content {
    let transport = upper.transport(frame);
    let flags = upper.details(frame).tcp_flags().unwrap_or(ACK);
    if transport.kind.is_invalid() || flags & (CONGESTION | SYN | ACK) == CONGESTION | SYN {
        return Content::OddFlags;
    }
    if transport.kind.is_syn() {
        return Content::Request;
    }
    match flags & (FIN | SYN | RST | ACK) {
        flags if flags == SYN | ACK => Content::Acceptance { is_asked: false },
        flags if flags & RST != 0 => Content::Reset {
            of_connection: false,
        },
        flags if flags & ACK != 0 && upper.fragment() == Fragment::Whole => {
            match u16::try_from(transport.destination_port) {
                Ok(port) if flags & FIN != 0 => Content::Ending { port },
                Ok(port) => Content::Stray { port },
                Err(_) => Content::Acknowledging,
            }
        }
        _ => Content::Acknowledging,
    }
}

fn datagram(upper: UpperLayer, fragment: Fragment, frame: Cursor<'_>) -> Content {
    let Some(ports) = upper.ports(frame) else {
        return Content::Other;
    };
    let [source_port, destination_port] = ports.map(u16::from_be_bytes);
    Content::Datagram(Datagram {
        source_port,
        destination_port,
        is_first: fragment != Fragment::Whole,
        has_socket: false,
    })
}

fn icmp(protocol: u8, upper: UpperLayer, is_from_link: bool, frame: Cursor<'_>) -> Content {
    let Some([kind, _]) = upper.details(frame).icmp_type_and_code() else {
        return Content::Icmp;
    };
    match (protocol, kind) {
        (ICMP, 8) | (ICMPV6, 128) => Content::EchoRequest,
        // Neighbour discovery and multicast listeners: only hosts on the link send them.
        (ICMPV6, 130..=143) if is_from_link => Content::Other,
        _ => Content::Icmp,
    }
}
