//! From bytes to a [`Flow`]: Ethernet, VLAN tags, and the network header with its source address.

mod ethernet;
mod ipv4;
pub mod ipv6;

use ethernet::Payload;
pub use ethernet::VLAN_TAGS_MAX;

use crate::{Cursor, DropReason, Family, Flow, Ipv4, Ipv6};

/// What a frame carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Packet {
    /// An IPv4 packet.
    Ipv4(Flow<Ipv4>),
    /// An IPv6 packet.
    Ipv6(Flow<Ipv6>),
    /// Not an IP packet.
    NotIp,
    /// A frame whose source address cannot be read.
    Unreadable(Family, DropReason),
}

/// Reads the headers of the frame at `cursor`.
#[must_use]
#[inline(always)]
pub fn parse(mut cursor: Cursor<'_>) -> Packet {
    match ethernet::payload(&mut cursor) {
        Ok(Payload::Ipv4) => ipv4::flow(&mut cursor).map_or(
            Packet::Unreadable(Family::Ipv4, DropReason::Truncated),
            Packet::Ipv4,
        ),
        Ok(Payload::Ipv6) => ipv6::flow(&mut cursor).map_or(
            Packet::Unreadable(Family::Ipv6, DropReason::Truncated),
            Packet::Ipv6,
        ),
        Ok(Payload::Other) => Packet::NotIp,
        Err(reason) => Packet::Unreadable(Family::Other, reason),
    }
}
