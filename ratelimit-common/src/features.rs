//! The features that a program is specialised for when it is loaded.
//!
//! A configuration uses few of the features, and one that it does not use costs no instruction.
//! Each use of a feature is guarded by a branch, [`is_enabled`], that user space patches before the
//! program is loaded ([`specialise`]), like a static key of the kernel: to one that the verifier
//! knows to be taken, or not to be. The verifier then removes the branch and the code behind it.
//!
//! A program may have more features than the tables use, never fewer: they also say at run time
//! what is in use, so that a reload can widen the program first and narrow it last.

use core::ops::{BitAnd, BitOr};

use crate::{Policy, Settings, algorithm::Algorithm};

/// A feature. The first are those that a flag of [`Settings`] turns on, by the bit of the flag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Feature {
    /// Limits of the prefixes around a source.
    Aggregates = 1,
    /// A budget for new sources.
    NewSources = 2,
    /// Packets over that budget are dropped.
    OverBudgetDrop = 3,
    /// Packets over that budget are charged to an overflow bucket.
    OverBudgetAggregate = 4,
    /// Verified sources draw first from the limits of the node.
    PrefersVerified = 6,
    /// The clock that ticks every few milliseconds.
    CoarseClock = 9,
    /// Limits of some classes.
    Classes = 10,
    /// Limits of the node.
    Node = 11,
    /// Bans by policies.
    PolicyBans = 13,
    /// A sample of all packets for user space.
    Samples = 14,
    /// Policies with a further one beside them.
    Further = 15,
    /// Limits that the nodes of a cluster share.
    Cluster = 16,
    /// Classes by more than protocol and ports.
    Headers = 17,
    /// Limits of destinations.
    Destinations = 18,
    /// Challenges.
    Challenge = 19,
    /// Interfaces with rules of their own.
    Interfaces = 20,
    /// Classes by destination.
    ToClasses = 22,
    /// Second allowances for established connections.
    Established = 23,
    /// A limit that is a sliding window.
    SlidingWindow = 32,
    /// A limit that is a token bucket.
    TokenBucket = 33,
    /// A limit that is a sliding log.
    SlidingLog = 34,
    /// A policy of several limits.
    SeveralLimits = 35,
    /// The `compact` store; without it the store is `lru`.
    Compact = 48,
    /// Programs on one CPU may interrupt each other: `PREEMPT_RT`.
    Interruptible = 49,
    /// Another program gets the packets that pass.
    Next = 50,
    /// Frames may take several buffers.
    Frags = 51,
    /// Tests choose the time.
    ManualClock = 52,
    /// Packets inside of tunnels are judged.
    Tunnels = 53,
    /// Frames have no Ethernet header.
    NoEthernet = 54,
    /// The program is built for TCX.
    Tcx = 55,
}

impl Feature {
    const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// The flags of [`Settings`] that are features; the others change while packets flow.
const OF_SETTINGS: u64 = bits(&[
    Feature::Aggregates,
    Feature::NewSources,
    Feature::OverBudgetDrop,
    Feature::OverBudgetAggregate,
    Feature::PrefersVerified,
    Feature::CoarseClock,
    Feature::Classes,
    Feature::Node,
    Feature::PolicyBans,
    Feature::Samples,
    Feature::Further,
    Feature::Cluster,
    Feature::Headers,
    Feature::Destinations,
    Feature::Challenge,
    Feature::Interfaces,
    Feature::ToClasses,
    Feature::Established,
]);

/// The features of policies.
const OF_POLICIES: u64 = bits(&[
    Feature::SlidingWindow,
    Feature::TokenBucket,
    Feature::SlidingLog,
    Feature::SeveralLimits,
]);

/// The features of the program that is built lean: those of most configurations. LLVM lays out
/// registers and stack for all the code that it sees, before the program is specialised, so less
/// code is also faster code.
const LEAN: u64 = OF_POLICIES
    | bits(&[
        Feature::NewSources,
        Feature::OverBudgetDrop,
        Feature::OverBudgetAggregate,
        Feature::CoarseClock,
        Feature::Samples,
        Feature::Compact,
        Feature::Interruptible,
        Feature::Next,
        Feature::Frags,
        Feature::ManualClock,
    ]);

/// The features that this build has the code of.
const BUILT: u64 = if cfg!(feature = "lean") {
    LEAN
} else if cfg!(feature = "tcx") {
    !bits(&[Feature::Challenge])
} else {
    u64::MAX
};

const fn bits(features: &[Feature]) -> u64 {
    match features {
        [first, others @ ..] => first.bit() | bits(others),
        [] => 0,
    }
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Features(u64);

impl Features {
    /// None of them: a program for one limit, a fixed window, in the `lru` store.
    pub const NONE: Self = Self(0);

    /// All that a configuration can use while the maps stay as they are.
    pub const ALL: Self = Self(OF_SETTINGS | OF_POLICIES);

    /// All that the lean program can have.
    pub const LEAN: Self = Self(LEAN);

    /// Returns the features that these settings turn on. Interfaces with rules imply limits of the
    /// node, which a rule may replace.
    pub const fn of_settings(settings: Settings) -> Self {
        let features = Self(settings.to_bits() & OF_SETTINGS);
        features.with_if(features.has(Feature::Interfaces), Feature::Node)
    }

    /// The features that a policy needs, besides those of the settings.
    pub fn of_policy(policy: &Policy) -> Self {
        let features = Self::NONE
            .with_if(policy.len() > 1, Feature::SeveralLimits)
            .with_if(policy.ban().is_some(), Feature::PolicyBans);
        policy
            .limits()
            .fold(features, |features, limit| match limit.algorithm() {
                Algorithm::FixedWindow(_) => features,
                Algorithm::SlidingWindow(_) => features.with(Feature::SlidingWindow),
                Algorithm::TokenBucket(_) => features.with(Feature::TokenBucket),
                Algorithm::SlidingLog(_) => features.with(Feature::SlidingLog),
            })
    }

    /// Adds a feature.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Self(self.0 | feature.bit())
    }

    /// Adds a feature if `is_there`.
    #[must_use]
    pub const fn with_if(self, is_there: bool, feature: Feature) -> Self {
        if is_there { self.with(feature) } else { self }
    }

    /// Removes a feature.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        Self(self.0 & !feature.bit())
    }

    /// Whether it has a feature.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// Whether it has all features of `other`.
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those of the program for TCX, which cannot answer a packet.
    #[must_use]
    pub const fn at_tcx(self) -> Self {
        self.without(Feature::Challenge)
            .with(Feature::Frags)
            .with(Feature::Tcx)
    }

    /// The set as a number.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The set of such a number.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Features {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Marks the branches of features: the number that they compare with, whose low bits are the
/// feature.
const MAGIC: i32 = 0x5ea7_0000;

/// Whether the program was specialised for the feature with this number; on a host it always is.
///
#[inline(always)]
pub fn is_enabled<const FEATURE: u8>() -> bool {
    is_enabled_beside::<FEATURE>(0)
}

/// Does the same as [`is_enabled`] if a number is already in a register: the branch needs a
/// register, and loading a constant costs an instruction.
#[inline(always)]
pub fn is_enabled_beside<const FEATURE: u8>(number: u64) -> bool {
    if BUILT.wrapping_shr(FEATURE.into()) & 1 == 0 {
        return false;
    }
    #[cfg(target_arch = "bpf")]
    {
        // SAFETY: a branch, which reads a register.
        unsafe {
            core::arch::asm!(
                "if {0} == {1} goto {2}",
                in(reg) number,
                const MAGIC | FEATURE as i32,
                label { return true },
                options(nomem, nostack, preserves_flags),
            );
        }
        false
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        let _ = number;
        true
    }
}

/// Patches the instructions of a program, whose guarded features are then those of `features`.
///
/// A branch becomes `if r >= 0`, without a sign, which is always taken, or `if r & 0`, which never
/// is. The verifier knows both of any number (`is_branch_taken` of `kernel/bpf/verifier.c`, since
/// Linux 5.1), while a jump that has no condition would leave code that nothing reaches, which it
/// refuses.
pub fn specialise(instructions: &mut [u8], features: Features) {
    const EQUALS: u8 = 0x15;
    const AT_LEAST: u8 = 0x35;
    const INTERSECTS: u8 = 0x45;
    for instruction in instructions.chunks_exact_mut(8) {
        let [code, _, _, _, immediate @ ..] = instruction else {
            continue;
        };
        let Ok(bytes) = <[u8; 4]>::try_from(&*immediate) else {
            continue;
        };
        let number = i32::from_le_bytes(bytes) ^ MAGIC;
        if *code != EQUALS || !(0..64).contains(&number) {
            continue;
        }
        let has_feature = features.0 & 1u64.wrapping_shl(number.unsigned_abs()) != 0;
        *code = if has_feature { AT_LEAST } else { INTERSECTS };
        immediate.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{
        Limit,
        algorithm::{FixedWindow, SlidingLog, TokenBucket},
    };

    /// `if r2 == MAGIC + feature goto +5`.
    fn branch(feature: Feature) -> [u8; 8] {
        let [a, b, c, d] = (MAGIC | feature as i32).to_le_bytes();
        [0x15, 0x02, 5, 0, a, b, c, d]
    }

    #[test]
    fn a_branch_is_taken_where_the_program_has_the_feature_and_never_elsewhere() {
        let features = Features::NONE.with(Feature::Compact);
        let mut taken = branch(Feature::Compact);
        specialise(&mut taken, features);
        assert_eq!(taken, [0x35, 0x02, 5, 0, 0, 0, 0, 0]);
        let mut never = branch(Feature::Node);
        specialise(&mut never, features);
        assert_eq!(never, [0x45, 0x02, 5, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn other_instructions_stay_as_they_are() {
        let [_, _, _, _, a, b, c, d] = branch(Feature::Node);
        // A number that is loaded, and a comparison with another one.
        for mut other in [
            [0xb7, 0x02, 0, 0, a, b, c, d],
            [0x15, 0x02, 5, 0, 1, 0, 0, 0],
        ] {
            let before = other;
            specialise(&mut other, Features::ALL);
            assert_eq!(other, before);
        }
    }

    #[test]
    fn a_policy_needs_the_features_of_its_limits() {
        let second = Duration::from_secs(1);
        let limit = |algorithm: Algorithm| Limit::new(algorithm, crate::Unit::Packets);
        let window = limit(FixedWindow::new(9, second).unwrap().into());
        let bucket = limit(TokenBucket::new(9, second, 9).unwrap().into());
        let log = limit(SlidingLog::new(9, second).unwrap().into());
        let features =
            |limits: &[Limit]| Features::of_policy(&Policy::new(limits, 1, false).unwrap());
        assert_eq!(features(&[window]), Features::NONE);
        let expected = Features::NONE.with(Feature::TokenBucket);
        assert_eq!(features(&[bucket]), expected);
        let expected = Features::NONE
            .with(Feature::SlidingLog)
            .with(Feature::SeveralLimits);
        assert_eq!(features(&[window, log]), expected);
        assert!(Features::ALL.covers(expected));
    }

    #[test]
    fn what_changes_while_packets_flow_is_no_feature() {
        let settings = Settings::new(7, true).with_pass_all(true);
        assert_eq!(Features::of_settings(settings), Features::NONE);
        let settings = settings.with_node(9);
        let expected = Features::NONE.with(Feature::Node);
        assert_eq!(Features::of_settings(settings), expected);
    }
}
