//! The two address families behind one trait, so that every rule is written once for both.

use core::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{
    Cursor, Flow,
    parse::{
        Payload, ipv4,
        ipv6::{self, Walk},
    },
    prefix_filter::{self, Levels},
};

/// The kind of packet in a frame; a label of the counters.
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
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Other => "other",
        }
    }
}

/// An IP address in network byte order.
pub trait Address: Copy + Eq + 'static {
    /// The family of this type.
    const FAMILY: Family;

    /// The payload that the headers in front of a packet of the family announce.
    const PAYLOAD: Payload;

    /// The length of an address in bits.
    const BITS: u8;

    /// The division of prefix lengths into levels of the [`prefix_filter`].
    const LEVELS: Levels;

    /// The flow of the packet at `cursor`, which is moved behind its network header. `walk` looks
    /// through the extension headers of IPv6.
    fn flow<'a>(
        cursor: &mut Cursor<'a>,
        walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
    ) -> Option<Flow<Self>>;

    /// The source and destination addresses of the packet at `cursor`.
    fn addresses(cursor: Cursor<'_>) -> Option<[Self; 2]>;

    /// The bits of `self` that `mask` keeps.
    fn masked(self, mask: Self) -> Self;

    /// The source of the address: its bits in `mask`. A link-local address (`fe80::/10`) is a
    /// source of its own, because all addresses of a link share their first 64 bits.
    fn source(self, mask: Self) -> Self;

    /// Whether it is an IPv6 address of `fe80::/10`.
    fn is_link_local(self) -> bool;

    /// Whether no packet can have this source. Multicast addresses cannot, `224.0.0.0/4` (RFC 1122,
    /// 3.2.1.3) and `ff00::/8` (RFC 4291, 2.7), nor can `255.0.0.0/8`, which contains the broadcast
    /// address.
    fn is_invalid_source(self) -> bool;

    /// Whether no host uses this source on a network: `0.0.0.0/8`, `127.0.0.0/8` and `240.0.0.0/4`;
    /// `::/96`, `::ffff:0:0/96` and `100::/64`. Private, shared, link-local and documentation
    /// addresses do not count: hosts behind this one may have them.
    fn is_bogon(self) -> bool;

    /// The first `bits` bits of `self`, and the others 0.
    fn prefix(self, bits: u8) -> Self;

    /// Maps the first `bits` bits, at most 64, to a number below 2^`width`. Adjacent prefixes have
    /// different numbers. For IPv4 with `bits` equal to `width`, all prefixes do.
    fn region(self, bits: u8, width: u8) -> u32;

    /// The address that is `count` prefixes of length `bits`, at most 64, after this one.
    fn nth(self, count: u32, bits: u8) -> Self;

    /// A hash of the address and a length, by which the [`prefix_filter`] distinguishes prefixes.
    fn mixed(self, length: u8) -> u32;

    /// 0 for the same address, otherwise a number below 2^63: a comparison without a branch.
    fn difference(self, other: &Self) -> u64;

    /// A hash whose upper bits are as good as random.
    fn spread(self) -> u32;

    /// The bit of this source in a [filter](crate::source_filter::Filter), below
    /// [`source_filter::BITS`](crate::source_filter::BITS).
    #[inline(always)]
    fn filter_bit(self) -> u32 {
        self.spread() >> 17
    }

    /// The first 64 bits of the address, which identify a source in the store `compact`. For a
    /// link-local address see `link_local`.
    fn key(self) -> u64;

    /// The address with this key, and 0 in all other bits.
    fn from_key(key: u64) -> Self;

    /// The address under which the tables store all sources of the surrounding /24 (IPv6: /48)
    /// without their own state. No packet comes from it, and it ends with the prefix. 255.0.0.0/8
    /// is reserved (RFC 1112, 4), and `ff00::/8` is multicast (RFC 4291, 2.7).
    fn overflow_bucket(self) -> Self;

    /// Whether this is the address of an overflow bucket.
    fn is_overflow_bucket(self) -> bool;

    /// The prefix of the sources in this overflow bucket, as its first address and its length.
    fn overflow_prefix(self) -> (Self, u8);

    /// The address in 16 bytes, an IPv4 address as its IPv4-mapped IPv6 address (RFC 4291,
    /// 2.5.5.2).
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
    /// Creates the address with these octets.
    pub const fn new(octets: [u8; 4]) -> Self {
        Self(octets)
    }
}

impl Ipv6 {
    /// Creates the address with these octets.
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// The upper and the lower 64 bits.
    #[inline(always)]
    fn halves(self) -> [u64; 2] {
        let [front, back] = zerocopy::transmute!(self.0);
        [u64::from_be_bytes(front), u64::from_be_bytes(back)]
    }

    #[inline(always)]
    pub(crate) fn of_halves(front: u64, back: u64) -> Self {
        Self(zerocopy::transmute!([
            front.to_be_bytes(),
            back.to_be_bytes()
        ]))
    }

    /// Returns the address with these bytes, in network order.
    #[inline(always)]
    pub fn of_words(words: [u64; 2]) -> Self {
        Self(zerocopy::transmute!(words))
    }
}

/// Odd numbers without a pattern: 2^64 over the golden ratio, and fractions of the roots of 3 and
/// 5.
const MIX: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
];

#[inline(always)]
fn of_length(length: u8) -> u64 {
    u64::from(length).wrapping_mul(MIX[2])
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the upper half fits")]
const fn high(word: u64) -> u32 {
    word.wrapping_shr(32) as u32
}

/// The key of a link-local address in 64 bits, ten of which mark it as one.
///
/// Its interface identifier has 54 bits: two for its form, and 52 of content. Small numbers, as
/// people assign them, and identifiers derived from a MAC address (RFC 4291, appendix A) are
/// complete. Others, random ones (RFC 7217), lose their last 12 bits. The bits between `fe80::/10`
/// and the identifier are 0 on the wire (RFC 4291, 2.5.6).
mod link_local {
    const PREFIX: u64 = 0xfe80 << 48;
    const FORM_SHIFT: u32 = 52;
    const SMALL: u64 = 0;
    const MAC: u64 = 1 << FORM_SHIFT;
    const OTHER: u64 = 2 << FORM_SHIFT;
    const FORM: u64 = 3 << FORM_SHIFT;
    /// Between the halves of a MAC address.
    const FILLER: u64 = 0xfffe << 24;
    const FILLER_MASK: u64 = 0xffff << 24;
    const LOW: u64 = (1 << 24) - 1;
    const LEFT_OUT: u32 = 12;

    /// Whether these are the first 64 bits of a link-local address, or the key of one.
    #[inline(always)]
    pub const fn is(front: u64) -> bool {
        front >> 54 == PREFIX >> 54
    }

    #[inline(always)]
    pub const fn key(identifier: u64) -> u64 {
        if identifier >> FORM_SHIFT == 0 {
            PREFIX | SMALL | identifier
        } else if identifier & FILLER_MASK == FILLER {
            PREFIX | MAC | (identifier >> 40) << 24 | identifier & LOW
        } else {
            PREFIX | OTHER | identifier >> LEFT_OUT
        }
    }

    pub const fn halves(key: u64) -> [u64; 2] {
        let number = key & !u64::MAX.wrapping_shl(FORM_SHIFT);
        let identifier = match key & FORM {
            SMALL => number,
            MAC => (number >> 24) << 40 | FILLER | number & LOW,
            _ => number << LEFT_OUT,
        };
        [PREFIX, identifier]
    }
}

impl Address for Ipv4 {
    const FAMILY: Family = Family::Ipv4;
    const PAYLOAD: Payload = Payload::Ipv4;
    const BITS: u8 = 32;
    const LEVELS: Levels = prefix_filter::IPV4;

    #[inline(always)]
    fn flow<'a>(
        cursor: &mut Cursor<'a>,
        _: impl FnOnce(Cursor<'a>, u8) -> Walk,
    ) -> Option<Flow<Self>> {
        ipv4::flow(cursor)
    }

    #[inline(always)]
    fn addresses(cursor: Cursor<'_>) -> Option<[Self; 2]> {
        ipv4::addresses(cursor)
    }

    #[inline(always)]
    fn masked(self, mask: Self) -> Self {
        Self((u32::from_ne_bytes(self.0) & u32::from_ne_bytes(mask.0)).to_ne_bytes())
    }

    #[inline(always)]
    fn source(self, mask: Self) -> Self {
        self.masked(mask)
    }

    #[inline(always)]
    fn is_link_local(self) -> bool {
        false
    }

    #[inline(always)]
    fn is_invalid_source(self) -> bool {
        let address = u32::from_be_bytes(self.0);
        // The first comparison accepts most addresses.
        address >= 0xe000_0000 && (address >> 28 == 0xe || address >> 24 == 0xff)
    }

    #[inline(always)]
    fn is_bogon(self) -> bool {
        let [first, ..] = self.0;
        first == 0 || first == 127 || first >= 240
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "32 bits are shifted right")]
    fn prefix(self, bits: u8) -> Self {
        // As 64 bits, because a shift by all 32 bits would need a branch.
        let behind = u64::from(u32::MAX).wrapping_shr(bits.into()) as u32;
        Self((u32::from_be_bytes(self.0) & !behind).to_be_bytes())
    }

    #[inline(always)]
    fn region(self, bits: u8, width: u8) -> u32 {
        let front = u32::from_be_bytes(self.0).wrapping_shr(32u32.wrapping_sub(bits.into()));
        front & !u32::MAX.wrapping_shl(width.into())
    }

    fn nth(self, count: u32, bits: u8) -> Self {
        let distance = count.wrapping_shl(32u32.wrapping_sub(bits.into()));
        Self(
            u32::from_be_bytes(self.0)
                .wrapping_add(distance)
                .to_be_bytes(),
        )
    }

    #[inline(always)]
    fn mixed(self, length: u8) -> u32 {
        let address = u64::from(u32::from_be_bytes(self.0));
        high(address.wrapping_mul(MIX[0]).wrapping_add(of_length(length)))
    }

    #[inline(always)]
    fn difference(self, other: &Self) -> u64 {
        (u32::from_ne_bytes(self.0) ^ u32::from_ne_bytes(other.0)).into()
    }

    #[inline(always)]
    fn spread(self) -> u32 {
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): the upper bits are the mixed ones.
        u32::from_be_bytes(self.0).wrapping_mul(0x9e37_79b1)
    }

    #[inline(always)]
    fn key(self) -> u64 {
        u32::from_be_bytes(self.0).into()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a key has 32 bits")]
    fn from_key(key: u64) -> Self {
        Self((key as u32).to_be_bytes())
    }

    #[inline(always)]
    fn overflow_bucket(self) -> Self {
        Self((u32::from_be_bytes(self.0).wrapping_shr(8) | 0xff00_0000).to_be_bytes())
    }

    #[inline(always)]
    fn is_overflow_bucket(self) -> bool {
        let [front, ..] = self.0;
        front == 0xff
    }

    fn overflow_prefix(self) -> (Self, u8) {
        let [_, a, b, c] = self.0;
        (Self([a, b, c, 0]), 24)
    }

    #[inline(always)]
    fn octets(self) -> [u8; 16] {
        // In two words: LLVM would turn bytes into a call, which takes stack space.
        let low = 0xffff_0000_0000 | u64::from(u32::from_be_bytes(self.0));
        zerocopy::transmute!([0, low.to_be()])
    }
}

impl Address for Ipv6 {
    const FAMILY: Family = Family::Ipv6;
    const PAYLOAD: Payload = Payload::Ipv6;
    const BITS: u8 = 128;
    const LEVELS: Levels = prefix_filter::IPV6;

    #[inline(always)]
    fn flow<'a>(
        cursor: &mut Cursor<'a>,
        walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
    ) -> Option<Flow<Self>> {
        ipv6::flow(cursor, walk)
    }

    #[inline(always)]
    fn addresses(cursor: Cursor<'_>) -> Option<[Self; 2]> {
        ipv6::addresses(cursor)
    }

    #[inline(always)]
    fn masked(self, mask: Self) -> Self {
        Self((u128::from_ne_bytes(self.0) & u128::from_ne_bytes(mask.0)).to_ne_bytes())
    }

    #[inline(always)]
    fn source(self, mask: Self) -> Self {
        // Without a branch: the verifier does not track a copy of the address that was made byte by
        // byte.
        let own: [u64; 2] = zerocopy::transmute!(self.0);
        let mask: [u64; 2] = zerocopy::transmute!(mask.0);
        let all = 0u64.wrapping_sub(self.is_link_local().into());
        Self(zerocopy::transmute!([
            own[0] & (mask[0] | all),
            own[1] & (mask[1] | all)
        ]))
    }

    #[inline(always)]
    fn is_link_local(self) -> bool {
        let [front, _] = self.halves();
        link_local::is(front)
    }

    #[inline(always)]
    fn is_invalid_source(self) -> bool {
        // In halves: LLVM would keep a byte separately, at an odd offset on the stack.
        let [front, _] = self.halves();
        front >> 56 == 0xff
    }

    #[inline(always)]
    fn is_bogon(self) -> bool {
        let [front, back] = self.halves();
        let is_mapped = front == 0 && matches!(back >> 32, 0 | 0xffff);
        is_mapped || front == 0x0100 << 48
    }

    #[inline(always)]
    fn prefix(self, bits: u8) -> Self {
        // In halves: a shift of 128 bits by a variable is a call that BPF does not have. And in
        // four steps, which need no branch: the verifier would follow both ways.
        let steps = |bits: u8| {
            let quarter = bits / 4;
            [
                quarter,
                quarter,
                quarter,
                bits.wrapping_sub(quarter.wrapping_mul(3)),
            ]
            .map(u32::from)
        };
        let behind_high = steps(bits).into_iter().fold(u64::MAX, u64::wrapping_shr);
        let within_low = steps(Self::BITS.wrapping_sub(bits))
            .into_iter()
            .fold(u64::MAX, u64::wrapping_shl);
        let [high, low] = self.halves();
        Self::of_halves(high & !behind_high, low & within_low)
    }

    #[inline(always)]
    fn region(self, bits: u8, width: u8) -> u32 {
        let [front, _] = self.halves();
        let front = front.wrapping_shr(64u32.wrapping_sub(bits.into()));
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4).
        let mixed = front.wrapping_mul(MIX[0]);
        high(mixed.wrapping_shr(32u32.wrapping_sub(width.into())))
    }

    fn nth(self, count: u32, bits: u8) -> Self {
        let [front, back] = self.halves();
        let distance = u64::from(count).wrapping_shl(64u32.wrapping_sub(bits.into()));
        Self::of_halves(front.wrapping_add(distance), back)
    }

    #[inline(always)]
    fn mixed(self, length: u8) -> u32 {
        let [front, back] = self.halves();
        let mixed = front.wrapping_mul(MIX[0]);
        let mixed = mixed.wrapping_add(back.wrapping_mul(MIX[1]));
        let mixed = mixed.wrapping_add(of_length(length));
        // Mixes again: otherwise the upper bits would contain no more than the region does.
        high((mixed ^ mixed.wrapping_shr(32)).wrapping_mul(MIX[1]))
    }

    #[inline(always)]
    fn difference(self, other: &Self) -> u64 {
        let own: [u64; 2] = zerocopy::transmute!(self.0);
        let other: [u64; 2] = zerocopy::transmute!(other.0);
        let [high, low] = [own[0] ^ other[0], own[1] ^ other[1]];
        let differs = high | low;
        differs.wrapping_shr(1) | (differs & 1)
    }

    #[inline(always)]
    fn spread(self) -> u32 {
        let [high, low]: [u64; 2] = zerocopy::transmute!(self.0);
        let halves = u64::from_be(high) ^ low;
        (halves.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    #[inline(always)]
    fn key(self) -> u64 {
        let [front, back] = self.halves();
        if link_local::is(front) {
            link_local::key(back)
        } else {
            front
        }
    }

    fn from_key(key: u64) -> Self {
        let [front, back] = if link_local::is(key) {
            link_local::halves(key)
        } else {
            [key, 0]
        };
        Self::of_halves(front, back)
    }

    #[inline(always)]
    fn overflow_bucket(self) -> Self {
        let [high, _] = self.halves();
        Self::of_halves(high.wrapping_shr(16) | 0xffff_0000_0000_0000, 0)
    }

    #[inline(always)]
    fn is_overflow_bucket(self) -> bool {
        let [first, second, ..] = self.0;
        first == 0xff && second == 0xff
    }

    fn overflow_prefix(self) -> (Self, u8) {
        let [high, _] = self.halves();
        (Self::of_halves(high.wrapping_shl(16), 0), 48)
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

/// The bits of an address.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
pub fn words<A: Address>(address: A) -> [u64; 2] {
    let bits = u128::from_ne_bytes(address.octets());
    [bits as u64, (bits >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_differ_in_a_bit_differ() {
        for bit in 0..128 {
            let [zeros, other] = [0, 1u128 << bit].map(|bits| Ipv6::new(bits.to_be_bytes()));
            assert_eq!(other.difference(&other), 0);
            assert!(
                (1..1 << 63).contains(&zeros.difference(&other)),
                "bit {bit}"
            );
        }
        for bit in 0..32 {
            let [ones, other] =
                [u32::MAX, u32::MAX ^ 1 << bit].map(|bits| Ipv4::new(bits.to_be_bytes()));
            assert_eq!(other.difference(&other), 0);
            assert!((1..1 << 63).contains(&ones.difference(&other)), "bit {bit}");
        }
    }

    #[test]
    fn a_link_local_address_is_a_source_of_its_own() {
        let mask = Ipv6::new([0xff; 16]).prefix(64);
        for (address, source) in [
            ("2001:db8::1:2", "2001:db8::"),
            ("fe80::1", "fe80::1"),
            ("febf::5054:ff:fe12:3456", "febf::5054:ff:fe12:3456"),
            ("fec0::1", "fec0::"),
            ("fe40::1", "fe40::"),
            ("::", "::"),
        ] {
            let [address, source] = [address, source].map(ipv6);
            assert_eq!(address.source(mask), source, "{address:?}");
        }
        let ipv4 = Ipv4::new([169, 254, 1, 2]);
        assert_eq!(ipv4.source(Ipv4::new([0xff, 0xff, 0, 0])), ipv4.prefix(16));
    }

    #[test]
    fn a_link_local_key_tells_neighbours_apart() {
        for own in [
            "fe80::",
            "fe80::1",
            "fe80::f:ffff:ffff:ffff",
            "fe80::5054:ff:fe12:3456",
            "fe80::ffff:ffff:feff:ffff",
            "fe80::a1b2:c3d4:e5f6:7000",
        ] {
            let address = ipv6(own);
            assert_eq!(Ipv6::from_key(address.key()), address, "{own}");
            assert!(link_local::is(address.key()) && !address.is_overflow_bucket());
        }
        let random = ipv6("fe80::a1b2:c3d4:e5f6:789a");
        assert_eq!(Ipv6::from_key(random.key()), random.prefix(116));
        let [one, two] = ["fe80::1", "fe80::2"].map(|text| ipv6(text).key());
        assert_ne!(one, two);
        let outside = ipv6("2001:db8:1:2::3");
        assert_eq!(Ipv6::from_key(outside.key()), outside.prefix(64));
    }

    #[test]
    fn groups_and_the_broadcast_address_send_nothing() {
        for first in 0..=u8::MAX {
            let expected = (224..240).contains(&first) || first == 255;
            assert_eq!(
                Ipv4::new([first, 1, 2, 3]).is_invalid_source(),
                expected,
                "{first}"
            );
            let mut octets = [1; 16];
            octets[0] = first;
            assert_eq!(
                Ipv6::new(octets).is_invalid_source(),
                first == 255,
                "{first}"
            );
        }
    }

    fn ipv6(text: &str) -> Ipv6 {
        text.parse::<Ipv6Addr>().unwrap().into()
    }

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
