//! The two address families, behind one trait: every rule is written once, for both.

use core::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a frame carries; a label of the counters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Family {
    /// An IPv4 packet.
    Ipv4 = 0,
    /// An IPv6 packet.
    Ipv6 = 1,
    /// No IP packet, or none that can be found.
    Other = 2,
}

impl Family {
    /// Every family, in the order of the counters.
    pub const ALL: [Self; 3] = [Self::Ipv4, Self::Ipv6, Self::Other];

    /// The label in metrics and tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Other => "other",
        }
    }
}

/// An IP address as it stands in a packet.
pub trait Address: Copy + Eq + 'static {
    /// The family of this type.
    const FAMILY: Family;

    /// The bits of `self` that `mask` keeps.
    #[must_use]
    fn masked(self, mask: Self) -> Self;

    /// The first `bits` bits of `self`, and the others 0.
    #[must_use]
    fn prefix(self, bits: u8) -> Self;

    /// The bit of the [guard](crate::guard::Guard) that stands for this address, below [`guard::BITS`](crate::guard::BITS).
    fn guard_bit(self) -> u32;

    /// The bit of the [filter](crate::detected::Filter) that stands for this source, below
    /// [`detected::BITS`](crate::detected::BITS).
    fn filter_bit(self) -> u32;

    /// The address in 16 bytes, an IPv4 address as its IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2).
    fn octets(self) -> [u8; 16];
}

/// An IPv4 address, 4 bytes in network order.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    FromBytes,
    Hash,
    Immutable,
    IntoBytes,
    KnownLayout,
    Ord,
    PartialEq,
    PartialOrd,
    Unaligned,
)]
#[repr(C)]
pub struct Ipv4([u8; 4]);

/// An IPv6 address, 16 bytes in network order.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    FromBytes,
    Hash,
    Immutable,
    IntoBytes,
    KnownLayout,
    Ord,
    PartialEq,
    PartialOrd,
    Unaligned,
)]
#[repr(C)]
pub struct Ipv6([u8; 16]);

impl Ipv4 {
    /// The address with these octets.
    #[must_use]
    pub const fn new(octets: [u8; 4]) -> Self {
        Self(octets)
    }
}

impl Ipv6 {
    /// The address with these octets.
    #[must_use]
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }
}

impl Address for Ipv4 {
    const FAMILY: Family = Family::Ipv4;

    #[inline(always)]
    fn masked(self, mask: Self) -> Self {
        Self((u32::from_ne_bytes(self.0) & u32::from_ne_bytes(mask.0)).to_ne_bytes())
    }

    #[inline(always)]
    fn prefix(self, bits: u8) -> Self {
        let behind = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
        Self((u32::from_be_bytes(self.0) & !behind).to_be_bytes())
    }

    #[inline(always)]
    fn guard_bit(self) -> u32 {
        u32::from_be_bytes(self.0) >> 16
    }

    #[inline(always)]
    fn filter_bit(self) -> u32 {
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): the upper bits are the mixed ones.
        u32::from_be_bytes(self.0).wrapping_mul(0x9e37_79b1) >> 17
    }

    #[inline(always)]
    fn octets(self) -> [u8; 16] {
        let [a, b, c, d] = self.0;
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
    }
}

impl Address for Ipv6 {
    const FAMILY: Family = Family::Ipv6;

    #[inline(always)]
    fn masked(self, mask: Self) -> Self {
        Self((u128::from_ne_bytes(self.0) & u128::from_ne_bytes(mask.0)).to_ne_bytes())
    }

    #[inline(always)]
    fn prefix(self, bits: u8) -> Self {
        // In halves: a shift of 128 bits by a variable is a call that BPF does not have.
        let behind = |bits: u8| u64::MAX.checked_shr(bits.into()).unwrap_or(0);
        let [high, low] = zerocopy::transmute!(self.0);
        let [high, low]: [u64; 2] = [u64::from_be_bytes(high), u64::from_be_bytes(low)];
        let high = high & !behind(bits.min(64));
        let low = low & !behind(bits.saturating_sub(64));
        Self(zerocopy::transmute!([
            high.to_be_bytes(),
            low.to_be_bytes()
        ]))
    }

    #[inline(always)]
    fn guard_bit(self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): real allocations differ in the middle of these 32 bits.
        u32::from_be_bytes([a, b, c, d]).wrapping_mul(0x9e37_79b1) >> 16
    }

    #[inline(always)]
    fn filter_bit(self) -> u32 {
        let [high, low]: [u64; 2] = zerocopy::transmute!(self.0);
        let halves = u64::from_be(high) ^ low;
        (halves.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49) as u32
    }

    #[inline(always)]
    fn octets(self) -> [u8; 16] {
        self.0
    }
}

impl From<Ipv4Addr> for Ipv4 {
    fn from(address: Ipv4Addr) -> Self {
        Self(address.octets())
    }
}

impl From<Ipv6Addr> for Ipv6 {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.octets())
    }
}

impl From<Ipv4> for Ipv4Addr {
    fn from(address: Ipv4) -> Self {
        address.0.into()
    }
}

impl From<Ipv6> for Ipv6Addr {
    fn from(address: Ipv6) -> Self {
        address.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_keeps_its_bits_and_no_others() {
        for bits in 0..=32 {
            let expected = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            assert_eq!(
                Ipv4::new([0xff; 4]).prefix(bits),
                Ipv4::new(expected.to_be_bytes())
            );
        }
        for bits in 0..=128 {
            let expected = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            assert_eq!(
                Ipv6::new([0xff; 16]).prefix(bits),
                Ipv6::new(expected.to_be_bytes())
            );
        }
    }
}
