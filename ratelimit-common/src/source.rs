//! State that belongs to one source.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, Family, Ipv4, Ipv6, limit::LIMITS_MAX};

/// The key of a source's state: its address, cut to the configured prefix, in the scope of one
/// policy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct SourceKey<A: Address> {
    address: A,
    scope: [u8; 4],
}

impl<A: Address> SourceKey<A> {
    /// The key of `address`, which the caller has masked, under the policy whose
    /// [scope](crate::Policy::scope) is `scope`.
    #[inline(always)]
    pub const fn new(address: A, scope: u32) -> Self {
        Self {
            address,
            scope: scope.to_ne_bytes(),
        }
    }

    /// The masked address.
    #[inline(always)]
    pub const fn address(&self) -> A {
        self.address
    }

    /// A reference to the masked address.
    #[inline(always)]
    pub const fn as_address(&self) -> &A {
        &self.address
    }

    /// The scope of the policy.
    #[inline(always)]
    pub const fn scope(&self) -> u32 {
        u32::from_ne_bytes(self.scope)
    }
}

/// The key of a sliding log: its source and scope, and which limit of the policy it is.
///
/// Aligned to a word: the program may read packets at any alignment, and LLVM then writes words at
/// any, which the verifier refuses on the stack.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Hash, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C, align(8))]
pub struct LogKey {
    /// The masked address, an IPv4 address as its IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2).
    address: [u8; 16],
    scope: u32,
    /// The index of the limit, and above it the family: an IPv6 address may look like an IPv4
    /// address that is mapped.
    limit: u32,
}

const FAMILY_SHIFT: u32 = 16;

impl LogKey {
    /// The log of the first limit of a source's policy.
    #[inline(always)]
    pub fn new<A: Address>(key: &SourceKey<A>) -> Self {
        Self {
            address: key.address.octets(),
            scope: key.scope(),
            limit: (A::FAMILY as u32).wrapping_shl(FAMILY_SHIFT),
        }
    }

    /// The log of the limit at `index`.
    #[inline(always)]
    pub const fn of_limit(self, index: u32) -> Self {
        Self {
            limit: self.limit & u32::MAX.wrapping_shl(FAMILY_SHIFT) | index,
            ..self
        }
    }

    /// The scope of its policy.
    pub const fn scope(&self) -> u32 {
        self.scope
    }

    /// The masked address, an IPv4 address as its IPv4-mapped IPv6 address.
    pub const fn octets(&self) -> [u8; 16] {
        self.address
    }

    /// The family of its source, and its [bit](Address::filter_bit) in filters.
    pub fn filter_bit(&self) -> (Family, u32) {
        let [.., a, b, c, d] = self.address;
        if self.is_ipv4() {
            (Family::Ipv4, Ipv4::new([a, b, c, d]).filter_bit())
        } else {
            (Family::Ipv6, Ipv6::new(self.address).filter_bit())
        }
    }

    /// Whether it is that of an IPv4 source.
    pub const fn is_ipv4(&self) -> bool {
        self.limit >> FAMILY_SHIFT == Family::Ipv4 as u32
    }

    /// The index of its limit.
    pub const fn limit(&self) -> u32 {
        self.limit & !u32::MAX.wrapping_shl(FAMILY_SHIFT)
    }
}

/// One word of state for each limit of the source's policy.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Record {
    /// The state of limit `i` at index `i`; 0 where nothing was charged yet.
    pub words: [u64; LIMITS_MAX],
}

impl Record {
    /// The state of a source's limits.
    pub const fn new(words: [u64; LIMITS_MAX]) -> Self {
        Self { words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_filter_bit_of_its_address() {
        let (ipv4, ipv6) = (Ipv4::new([192, 0, 2, 1]), Ipv6::new([7; 16]));
        let bit = LogKey::new(&SourceKey::new(ipv4, 7)).filter_bit();
        assert_eq!(bit, (Family::Ipv4, ipv4.filter_bit()));
        let bit = LogKey::new(&SourceKey::new(ipv6, 7)).filter_bit();
        assert_eq!(bit, (Family::Ipv6, ipv6.filter_bit()));
    }

    #[test]
    fn an_ipv4_source_has_no_log_of_an_ipv6_source() {
        let ipv4 = Ipv4::new([192, 0, 2, 1]);
        let own = LogKey::new(&SourceKey::new(ipv4, 7)).of_limit(3);
        let mapped = LogKey::new(&SourceKey::new(Ipv6::new(ipv4.octets()), 7)).of_limit(3);
        assert_ne!(own, mapped);
        for key in [own, mapped] {
            assert_eq!(
                (key.scope(), key.limit(), key.of_limit(5).limit()),
                (7, 3, 5)
            );
        }
    }
}
