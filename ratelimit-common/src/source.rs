//! State that belongs to one source.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, policy::LIMITS_MAX};

/// The key of a source's state: its address, cut to the configured prefix, in the scope of one policy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct SourceKey<A: Address> {
    address: A,
    scope: [u8; 4],
}

impl<A: Address> SourceKey<A> {
    /// The key of `address`, which the caller has masked, under the policy whose [scope](crate::Policy::scope) is `scope`.
    #[inline(always)]
    pub const fn new(address: A, scope: u32) -> Self {
        Self {
            address,
            scope: scope.to_ne_bytes(),
        }
    }

    /// The masked address.
    pub const fn address(&self) -> A {
        self.address
    }

    /// The masked address, where it lies.
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
/// Aligned to a word: the program may read packets at any alignment, and LLVM then writes words at any, which the verifier
/// refuses on the stack.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Hash, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C, align(8))]
pub struct LogKey {
    /// The masked address, an IPv4 address as its IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2).
    address: [u8; 16],
    scope: u32,
    limit: u32,
}

impl LogKey {
    /// The log of the first limit of a source's policy.
    #[must_use]
    #[inline(always)]
    pub fn new<A: Address>(key: &SourceKey<A>) -> Self {
        Self {
            address: key.address.octets(),
            scope: key.scope(),
            limit: 0,
        }
    }

    /// The log of the limit at `index`.
    #[must_use]
    #[inline(always)]
    pub const fn of_limit(self, index: u32) -> Self {
        Self {
            limit: index,
            ..self
        }
    }

    /// The scope of its policy.
    #[must_use]
    pub const fn scope(&self) -> u32 {
        self.scope
    }

    /// The index of its limit.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
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
    /// The state of so many limits.
    #[must_use]
    pub const fn new(words: [u64; LIMITS_MAX]) -> Self {
        Self { words }
    }
}
