//! Whether limits let a packet pass.

use crate::DropReason;

/// A packet that is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The reason.
    pub reason: DropReason,
    /// The index of the limit that refused; 0 if none did.
    pub limit: u8,
}

impl Refusal {
    /// A refusal that no limit decided.
    #[inline(always)]
    pub const fn without_limit(reason: DropReason) -> Self {
        Self { reason, limit: 0 }
    }
}

/// Whether limits let a packet pass: an `Option<Result<(), Refusal>>` in one number.
///
/// The verifier follows a number through calls and memory; of an enum, LLVM copies also what is not
/// there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Outcome(u32);

/// The index of a limit is below the reason.
const LIMIT_BITS: u32 = 8;
const LIMIT_MASK: u32 = (1 << LIMIT_BITS) - 1;
/// The reason, plus one.
const REASON_MASK: u32 = 0xff << LIMIT_BITS;
const OBSERVED: u32 = 1 << 16;
const REFUSAL_COUNTED: u32 = 1 << 17;

impl Outcome {
    /// No limit counts the packet.
    pub const UNCOUNTED: Self = Self(0);

    /// All limits had room.
    pub const PASSED: Self = Self(1);

    /// The first limit has no room.
    pub const LIMITED: Self = Self::refused(DropReason::Limited, 0);

    /// A refusal by a cached denial, which counts it.
    pub const DENIED: Self = Self(Self::LIMITED.0 | REFUSAL_COUNTED);

    /// The source needed state, and there was no budget for it; see
    /// [`new_sources`](crate::new_sources).
    pub const OVER_BUDGET: Self = Self::refused(DropReason::NewSources, 0);

    /// Over budget, where such packets pass.
    pub const OVER_BUDGET_PASSED: Self = Self(2);

    /// A class is exempt from limits.
    pub const EXEMPT: Self = Self(3);

    /// The limit at `index` refused the packet.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index is below LIMITS_MAX"
    )]
    pub const fn refused(reason: DropReason, index: usize) -> Self {
        let number = (reason as u32).wrapping_add(1);
        Self(number.wrapping_shl(LIMIT_BITS) | index as u32)
    }

    /// Whether a limit counts the packet.
    #[inline(always)]
    pub const fn is_counted(self) -> bool {
        self.0 != Self::UNCOUNTED.0
    }

    /// Whether a limit refused the packet.
    #[inline(always)]
    pub const fn is_refused(self) -> bool {
        self.0 & REASON_MASK != 0
    }

    /// Whether the source needed state, and there was no budget for it.
    #[inline(always)]
    pub const fn is_over_budget(self) -> bool {
        self.0 & REASON_MASK == Self::OVER_BUDGET.0 & REASON_MASK
    }

    /// Returns the outcome for an overflow bucket. It passes and is refused because its sources
    /// have no state of their own.
    #[inline(always)]
    pub const fn of_overflow_bucket(self) -> Self {
        if self.0 == Self::PASSED.0 {
            Self::OVER_BUDGET_PASSED
        } else {
            self.by(DropReason::NewSources)
        }
    }

    /// Returns the more specific of two outcomes: a refusal, then a source without state, then room
    /// in all limits.
    #[inline(always)]
    pub const fn more_specific(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    /// Whether a limit had no room for the packet.
    #[inline(always)]
    pub const fn is_limited(self) -> bool {
        self.0 & REASON_MASK == Self::LIMITED.0 & REASON_MASK
    }

    /// Whether the packet is refused for this reason.
    #[inline(always)]
    pub const fn is_for(self, reason: DropReason) -> bool {
        self.0 & REASON_MASK == Self::refused(reason, 0).0 & REASON_MASK
    }

    /// Whether the refusal of the source is counted already.
    #[inline(always)]
    pub const fn is_refusal_counted(self) -> bool {
        self.0 & REFUSAL_COUNTED != 0
    }

    /// Whether a limit that is not a dry run refused the packet.
    #[inline(always)]
    pub const fn is_enforced(self) -> bool {
        self.is_refused() && self.0 & OBSERVED == 0
    }

    /// Returns the outcome of a policy with or without a dry run.
    #[inline(always)]
    pub const fn observed_if(self, observe: bool) -> Self {
        if observe && self.is_refused() {
            Self(self.0 | OBSERVED)
        } else {
            self
        }
    }

    /// The refusal, if it is one.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "cut off on purpose")]
    pub fn refusal(self) -> Option<Refusal> {
        let number = self.0.wrapping_shr(LIMIT_BITS).wrapping_sub(1) as u8;
        self.is_refused().then_some(Refusal {
            reason: DropReason::from_number(number).unwrap_or(DropReason::NoState),
            limit: self.0 as u8,
        })
    }

    /// Replaces [`DropReason::Limited`] by `reason`.
    #[inline(always)]
    pub const fn by(self, reason: DropReason) -> Self {
        if self.is_limited() {
            Self(Self::refused(reason, 0).0 | (self.0 & !REASON_MASK))
        } else {
            self
        }
    }

    /// Returns the outcome with an index that follows `limits` other limits.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both are at most LIMITS_MAX"
    )]
    pub const fn behind(self, limits: usize) -> Self {
        if self.is_refused() {
            Self(self.0.wrapping_add(limits as u32))
        } else {
            self
        }
    }

    /// Names the limit at `index` as the refusing one.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index is below LIMITS_MAX"
    )]
    pub const fn at(self, index: usize) -> Self {
        Self((self.0 & !LIMIT_MASK) | index as u32)
    }

    /// The number, to be handed on.
    #[inline(always)]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The outcome that was handed on.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}
