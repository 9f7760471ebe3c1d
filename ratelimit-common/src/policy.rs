//! A policy: a named list of limits. The name stays in user space; the kernel knows policies by their index.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    Instant,
    algorithm::{Algorithm, Denied, Parameters},
};

/// The most limits a policy may have.
pub const LIMITS_MAX: usize = 8;

/// What a limit counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Unit {
    /// Each packet costs 1.
    Packets = 0,
    /// Each packet costs the bytes of its frame.
    Bytes = 1,
}

/// One limit: an algorithm with its parameters, and the unit that it counts.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Limit {
    algorithm: u32,
    unit: u32,
    parameters: Parameters,
}
const _: () = assert!(size_of::<Limit>() == 32);

impl Limit {
    /// A limit of `unit` under `algorithm`.
    #[must_use]
    pub fn new(algorithm: impl Into<Algorithm>, unit: Unit) -> Self {
        let (algorithm, parameters) = algorithm.into().into_parts();
        Self {
            algorithm,
            unit: unit as u32,
            parameters,
        }
    }

    /// The algorithm, with its parameters.
    #[must_use]
    #[inline(always)]
    pub fn algorithm(&self) -> Algorithm {
        Algorithm::from_parts(self.algorithm, self.parameters)
    }

    /// What the limit counts.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        if self.unit == Unit::Bytes as u32 {
            Unit::Bytes
        } else {
            Unit::Packets
        }
    }

    /// The state after a packet of `frame_bytes` bytes at `now`.
    ///
    /// # Errors
    ///
    /// [`Denied`] when the packet does not fit; the state stays as it is.
    #[inline(always)]
    pub fn step(&self, word: u64, now: Instant, frame_bytes: u32) -> Result<u64, Denied> {
        let cost = match self.unit() {
            Unit::Packets => 1,
            Unit::Bytes => u64::from(frame_bytes),
        };
        self.algorithm().step(word, now, cost)
    }
}

/// The limits of a policy. All that match a packet must have room; then all are charged, otherwise none.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Policy {
    limits: [Limit; LIMITS_MAX],
    len: u32,
    scope: u32,
    flags: u64,
}
const _: () = assert!(size_of::<Policy>() == 272);

const OBSERVE: u64 = 1 << 0;

impl Policy {
    /// A policy of `limits`; `None` when there are more than [`LIMITS_MAX`].
    #[must_use]
    pub fn new(limits: &[Limit], scope: u32, observe: bool) -> Option<Self> {
        let mut policy = Self {
            scope,
            flags: if observe { OBSERVE } else { 0 },
            ..Self::default()
        };
        policy
            .limits
            .get_mut(..limits.len())?
            .copy_from_slice(limits);
        policy.len = u32::try_from(limits.len()).ok()?;
        Some(policy)
    }

    /// The number of limits, at most [`LIMITS_MAX`].
    #[must_use]
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the policy limits nothing.
    #[must_use]
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The limits.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().take(self.len())
    }

    /// The limit at `index`; `None` past the last.
    #[must_use]
    #[inline(always)]
    pub fn limit(&self, index: usize) -> Option<&Limit> {
        if index < self.len() {
            self.limits.get(index)
        } else {
            None
        }
    }

    /// What keeps the state of this policy apart from that of others: two policies whose words of state mean the same
    /// thing may share a scope, and then share what their sources have used.
    #[must_use]
    #[inline(always)]
    pub const fn scope(&self) -> u32 {
        self.scope
    }

    /// Whether packets over a limit of this policy are counted and passed.
    #[must_use]
    #[inline(always)]
    pub const fn observe(&self) -> bool {
        self.flags & OBSERVE != 0
    }
}
