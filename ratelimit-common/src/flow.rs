//! The parsed headers of a packet, for the pipeline.

use crate::{Address, DropReason, parse::transport::UpperLayer};

/// A packet whose source address was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow<A: Address> {
    /// The source address.
    pub source: A,
    /// The address that it goes to.
    pub destination: A,
    /// The differentiated services code point (RFC 2474), without the bits of congestion.
    pub dscp: u8,
    /// Content with a rule of its own in the pipeline.
    pub content: Content,
    /// The upper layer.
    pub upper: UpperLayer,
}

/// The content of a packet, as far as the pipeline distinguishes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// Neighbour discovery (RFC 4861): ICMPv6 133-137 from the link itself, shown by a hop limit of
    /// 255, right behind the fixed header.
    NeighbourDiscovery,
    /// More IPv6 extension headers than
    /// [`EXTENSION_HEADERS_MAX`](crate::parse::ipv6::EXTENSION_HEADERS_MAX), or longer ones than
    /// the readable part of a jumbo frame.
    TooDeep,
    /// Anything else: judged by its source and its classes.
    Ordinary,
}

impl Content {
    /// The reason it is dropped if no list applies; `None` if it passes.
    #[inline(always)]
    pub const fn refusal(self) -> Option<DropReason> {
        match self {
            Self::NeighbourDiscovery => Some(DropReason::NeighbourDiscovery),
            Self::TooDeep => Some(DropReason::ExtensionDepth),
            Self::Ordinary => None,
        }
    }
}
