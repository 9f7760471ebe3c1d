//! Properties of a packet's pair of addresses that classes use.

use crate::Address;

/// Reasons why no host sends a packet with such addresses, one bit each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Addresses(u32);

impl Addresses {
    /// The number of values of [`bits`](Self::bits).
    pub const COUNT: u32 = 1 << 2;

    /// The source equals the destination.
    pub const LAND: Self = Self(1 << 0);

    /// No host uses this source on a network: see [`Address::is_bogon`].
    pub const BOGON: Self = Self(1 << 1);

    /// Returns the reasons for a packet.
    #[inline(always)]
    pub fn of<A: Address>([source, destination]: [A; 2]) -> Self {
        let land = if source.difference(&destination) == 0 {
            Self::LAND.0
        } else {
            0
        };
        let bogon = if source.is_bogon() { Self::BOGON.0 } else { 0 };
        Self(land | bogon)
    }

    /// The bits.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether `bits` have what `self` has.
    pub const fn are_in(self, bits: u32) -> bool {
        bits & self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::{Ipv4, Ipv6};

    #[test]
    fn bogons_begin_and_end_where_the_text_says() {
        for (address, is_bogon) in [
            ("0.0.0.0", true),
            ("0.255.255.255", true),
            ("1.0.0.0", false),
            ("10.0.0.1", false),
            ("126.255.255.255", false),
            ("127.0.0.1", true),
            ("127.255.255.255", true),
            ("128.0.0.0", false),
            ("169.254.169.254", false),
            ("223.255.255.255", false),
            ("239.255.255.255", false),
            ("240.0.0.0", true),
            ("255.255.255.255", true),
        ] {
            let parsed: Ipv4Addr = address.parse().unwrap();
            assert_eq!(Ipv4::from(parsed).is_bogon(), is_bogon, "{address}");
        }
        for (address, is_bogon) in [
            ("::", true),
            ("::1", true),
            ("::ffff:192.0.2.1", true),
            ("::fffe:0:0", false),
            ("::1:0:0:0", false),
            ("100::1", true),
            ("100:0:0:1::", false),
            ("2001:db8::1", false),
            ("fe80::1", false),
            ("64:ff9b::1", false),
        ] {
            let parsed: Ipv6Addr = address.parse().unwrap();
            assert_eq!(Ipv6::from(parsed).is_bogon(), is_bogon, "{address}");
        }
    }

    #[test]
    fn a_packet_to_its_own_source_is_land() {
        let [one, other] =
            [[203, 0, 113, 9], [203, 0, 113, 8]].map(|octets| Ipv4::from(Ipv4Addr::from(octets)));
        assert_eq!(Addresses::of([one, one]), Addresses::LAND);
        assert_eq!(Addresses::of([one, other]), Addresses::default());
        let loopback = Ipv6::from(Ipv6Addr::LOCALHOST);
        let both = Addresses::of([loopback, loopback]).bits();
        assert!(Addresses::LAND.are_in(both) && Addresses::BOGON.are_in(both));
    }
}
