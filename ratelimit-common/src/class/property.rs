//! The properties of packets that classes can match.

use crate::parse::{
    addresses::Addresses,
    transport::{Details, Kind, NO_PORT},
};

/// The value of the VLAN of a packet without a tag.
pub const NO_VLAN: u32 = 4096;

/// A property of packets. All have one map: each has a part of it, with an entry for each of its
/// values.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Property {
    /// The kind of packet: [`Kind::index`].
    Kind,
    /// The port it comes from, or [`NO_PORT`].
    SourcePort,
    /// The port it goes to, or [`NO_PORT`].
    DestinationPort,
    /// Flags of TCP, type and code of ICMP: [`Details::index`].
    Details,
    /// Bytes of the IP packet, as its header says.
    Length,
    /// The time to live in the upper byte, and the type of service in the lower one. IPv6 calls
    /// them hop limit and traffic class.
    HopsAndService,
    /// The outermost VLAN that the frame still has, or [`NO_VLAN`].
    Vlan,
    /// The joint properties of both addresses: [`Addresses::bits`].
    Addresses,
    /// An octet of the IPv4 address it goes to, and above it the place of that. A packet has a
    /// value for each place.
    DestinationV4,
    /// The destination of an IPv6 packet.
    DestinationV6,
}

impl Property {
    /// All of them, in the order of their parts.
    pub const ALL: [Self; 10] = [
        Self::Kind,
        Self::SourcePort,
        Self::DestinationPort,
        Self::Details,
        Self::Length,
        Self::HopsAndService,
        Self::Vlan,
        Self::Addresses,
        Self::DestinationV4,
        Self::DestinationV6,
    ];

    /// The entries of the map of all properties.
    pub const ENTRIES: u32 = Self::DestinationV6.sum_before() + Self::DestinationV6.values();

    /// The number of its values, which begin at 0.
    #[inline(always)]
    pub const fn values(self) -> u32 {
        match self {
            Self::Kind => Kind::COUNT,
            Self::SourcePort | Self::DestinationPort => NO_PORT + 1,
            Self::Details => Details::COUNT,
            Self::Length | Self::HopsAndService => 1 << 16,
            Self::Vlan => NO_VLAN + 1,
            Self::Addresses => Addresses::COUNT,
            Self::DestinationV4 => 4 << 8,
            Self::DestinationV6 => 16 << 8,
        }
    }

    /// The index of its first entry in the map.
    #[inline(always)]
    pub const fn start(self) -> u32 {
        match self {
            Self::Kind => const { Self::Kind.sum_before() },
            Self::SourcePort => const { Self::SourcePort.sum_before() },
            Self::DestinationPort => const { Self::DestinationPort.sum_before() },
            Self::Details => const { Self::Details.sum_before() },
            Self::Length => const { Self::Length.sum_before() },
            Self::HopsAndService => const { Self::HopsAndService.sum_before() },
            Self::Vlan => const { Self::Vlan.sum_before() },
            Self::Addresses => const { Self::Addresses.sum_before() },
            Self::DestinationV4 => const { Self::DestinationV4.sum_before() },
            Self::DestinationV6 => const { Self::DestinationV6.sum_before() },
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "evaluated at compile time")]
    #[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
    const fn sum_before(self) -> u32 {
        let (mut sum, mut index) = (0, 0);
        while index < self as usize {
            sum += Self::ALL[index].values();
            index += 1;
        }
        sum
    }

    /// Whether it is read only where a class asks for it: the others are read for every packet that
    /// has a class.
    pub const fn is_of_headers(self) -> bool {
        match self {
            Self::Kind | Self::SourcePort | Self::DestinationPort => false,
            Self::Details
            | Self::Length
            | Self::HopsAndService
            | Self::Vlan
            | Self::Addresses
            | Self::DestinationV4
            | Self::DestinationV6 => true,
        }
    }

    /// Whether it is that of the address that a packet goes to, which is read only where a class
    /// asks for it.
    pub const fn is_of_destination(self) -> bool {
        matches!(self, Self::DestinationV4 | Self::DestinationV6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_has_a_part_of_its_own() {
        let mut next = 0;
        for property in Property::ALL {
            assert_eq!(property.start(), next, "{property:?}");
            next += property.values();
        }
        assert_eq!(Property::ENTRIES, next);
    }
}
