//! The header before the network header: Ethernet, or none.

use super::ethernet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use crate::{Cursor, DropReason, layout::link_layer};

/// The first header of an interface's frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LinkLayer {
    /// An Ethernet header, with or without VLAN tags.
    #[default]
    Ethernet,
    /// The network header itself.
    None,
}

/// The header behind the link-layer headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payload {
    /// An IPv4 header.
    Ipv4,
    /// An IPv6 header.
    Ipv6,
    /// Something else.
    Other,
}

impl LinkLayer {
    /// Returns the header with this number of [`link_layer`].
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            link_layer::NONE => Self::None,
            _ => Self::Ethernet,
        }
    }

    /// Returns the number in [`link_layer`].
    pub const fn number(self) -> u32 {
        match self {
            Self::Ethernet => link_layer::ETHERNET,
            Self::None => link_layer::NONE,
        }
    }
}

/// Moves behind the headers of the link layer.
///
/// # Errors
///
/// If the payload cannot be determined.
#[inline(always)]
pub fn payload(cursor: &mut Cursor<'_>, link_layer: LinkLayer) -> Result<Payload, DropReason> {
    Ok(match ethertype(cursor, link_layer)? {
        ETHERTYPE_IPV4 => Payload::Ipv4,
        ETHERTYPE_IPV6 => Payload::Ipv6,
        _ => Payload::Other,
    })
}

/// Skips the link-layer headers, and returns the Ethernet type of the payload.
///
/// # Errors
///
/// As above.
#[inline(always)]
pub fn ethertype(cursor: &mut Cursor<'_>, link_layer: LinkLayer) -> Result<u16, DropReason> {
    match link_layer {
        LinkLayer::Ethernet => ethernet::ethertype(cursor),
        LinkLayer::None => ethertype_by_version(*cursor).ok_or(DropReason::Truncated),
    }
}

/// The Ethernet type of an IP packet, derived from its first four bits; 0 if it is neither version.
/// `None` if the frame ends.
#[inline(always)]
pub fn ethertype_by_version(mut cursor: Cursor<'_>) -> Option<u16> {
    let [first]: &[u8; 1] = cursor.take()?;
    Some(match first >> 4 {
        4 => ETHERTYPE_IPV4,
        6 => ETHERTYPE_IPV6,
        _ => 0,
    })
}
