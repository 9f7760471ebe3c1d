//! The settings that can change while packets flow, for all of them at once.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    features::{self, Feature},
    generation::Generation,
    interface::InterfaceRule,
    layout::POLICIES_MAX,
};

/// One word, so that a change of several settings is seen whole or not at all. It holds flags, the
/// index of the policy for sources that no list entry gives another one, and that of the node's
/// policy. It also holds the generation of the other tables that is in force.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct Settings(u64);

/// The treatment of packets of new sources when the budget is spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OverBudget {
    /// They pass, and no limit of a source counts them.
    Pass,
    /// They are dropped.
    Drop,
    /// They are charged to the overflow bucket of their sources. This exists beside the two others
    /// because it alone bounds late sources and still lets some packets of each prefix through,
    /// within the limits of one source.
    Aggregate,
}

const DEFAULT_POLICY_SHIFT: u32 = 32;
const NODE_POLICY_SHIFT: u32 = 48;
const POLICY_MASK: u32 = u16::MAX as u32;

// Flags for limits come first: they are passed with each packet in one byte.
const GENERATION: u32 = 1 << 0;
const AGGREGATES: u32 = 1 << 1;
const NEW_SOURCES: u32 = 1 << 2;
const OVER_BUDGET_DROP: u32 = 1 << 3;
const OVER_BUDGET_AGGREGATE: u32 = 1 << 4;
const EXCLUDED_FROM_RESERVE: u32 = 1 << 5;
const PREFERS_VERIFIED: u32 = 1 << 6;
const OBSERVE: u32 = 1 << 8;
const COARSE_CLOCK: u32 = 1 << 9;
const CLASSES: u32 = 1 << 10;
const NODE: u32 = 1 << 11;
const PASS_ALL: u32 = 1 << 12;
const POLICY_BANS: u32 = 1 << 13;
const SAMPLES: u32 = 1 << 14;
const FURTHER: u32 = 1 << 15;
const CLUSTER: u32 = 1 << 16;
const HEADERS: u32 = 1 << 17;
const DESTINATIONS: u32 = 1 << 18;
const CHALLENGE: u32 = 1 << 19;
const INTERFACES: u32 = 1 << 20;
const OBSERVE_HERE: u32 = 1 << 21;
const TO_CLASSES: u32 = 1 << 22;
const ESTABLISHED: u32 = 1 << 23;
const SPARES_ACKNOWLEDGEMENTS: u32 = 1 << 24;
const CHALLENGES_ONLY_TCP: u32 = 1 << 25;
const CHALLENGES_ONLY_TCP_AND_DNS: u32 = 1 << 26;
const CHALLENGE_TARGETS: u32 = 1 << 27;
const FILLED: u32 = 1 << 28;

impl Settings {
    /// The settings that the daemon writes: the index of the default policy, and whether everything
    /// is a dry run. The clock is the precise one, and there are no classes, no wider prefixes, no
    /// policies that ban and no limits of the node.
    pub const fn new(default_policy: u32, observe: bool) -> Self {
        let settings = Self(index(default_policy) << DEFAULT_POLICY_SHIFT).with(FILLED);
        if observe {
            settings.with(OBSERVE)
        } else {
            settings
        }
    }

    /// Whether they were written. Settings are written last, so the other tables are then complete.
    pub const fn are_written(self) -> bool {
        self.has(FILLED)
    }

    /// Selects the clock that advances only every few milliseconds, and costs next to nothing.
    pub const fn with_coarse_clock(self) -> Self {
        self.with(COARSE_CLOCK)
    }

    /// Uses the precise clock.
    pub const fn with_precise_clock(self) -> Self {
        self.without(COARSE_CLOCK)
    }

    /// Enables limits that count some classes only.
    pub const fn with_classes(self) -> Self {
        self.with(CLASSES)
    }

    /// Sets whether classes need more [properties](crate::class::Property) than protocol and ports.
    pub const fn asking_headers(self, asks: bool) -> Self {
        if asks {
            self.with(HEADERS)
        } else {
            self.without(HEADERS)
        }
    }

    /// Sets whether classes depend on the destination.
    pub const fn asking_destination(self, asks: bool) -> Self {
        if asks {
            self.with(TO_CLASSES)
        } else {
            self.without(TO_CLASSES)
        }
    }

    /// Enables limits of the wider prefixes around a source.
    pub const fn with_aggregates(self) -> Self {
        self.with(AGGREGATES)
    }

    /// Enables policies with another policy beside them.
    pub const fn with_further(self) -> Self {
        self.with(FURTHER)
    }

    /// Enables policies with limits that the nodes of a cluster share.
    pub const fn with_cluster(self) -> Self {
        self.with(CLUSTER)
    }

    /// Enables limits of destinations.
    pub const fn with_destinations(self) -> Self {
        self.with(DESTINATIONS)
    }

    /// Disables limits of destinations.
    pub const fn without_destinations(self) -> Self {
        self.without(DESTINATIONS)
    }

    /// Enables interfaces with their own [rule](InterfaceRule).
    pub const fn with_interfaces(self) -> Self {
        self.with(INTERFACES)
    }

    /// The settings for a packet on an interface with this rule.
    #[inline(always)]
    pub const fn on(self, rule: InterfaceRule) -> Self {
        let settings = match rule.policy() {
            Some(policy) => {
                let others = self.0 & !((POLICY_MASK as u64) << DEFAULT_POLICY_SHIFT);
                Self(others | index(policy) << DEFAULT_POLICY_SHIFT)
            }
            None => self,
        };
        let settings = match rule.node() {
            Some(policy) => settings.with_node(policy),
            None => settings,
        };
        if rule.observe() {
            settings.with(OBSERVE_HERE)
        } else {
            settings
        }
    }

    /// Enables policies with a second allowance for established connections.
    pub const fn with_established(self) -> Self {
        self.with(ESTABLISHED)
    }

    /// Enables policies that ban.
    pub const fn with_policy_bans(self) -> Self {
        self.with(POLICY_BANS)
    }

    /// Sets whether all packets are sampled for user space.
    pub const fn sampling(self, samples: bool) -> Self {
        if samples {
            self.with(SAMPLES)
        } else {
            self.without(SAMPLES)
        }
    }

    /// Sets whether sources may be challenged.
    pub const fn with_challenge(self, has_challenge: bool) -> Self {
        if has_challenge {
            self.with(CHALLENGE)
        } else {
            self.without(CHALLENGE)
        }
    }

    /// Challenges only connections to some [targets](crate::challenge::Targets). SYNs to ports that
    /// serve DNS may be challenged wherever they go.
    pub const fn with_challenge_targets(self) -> Self {
        self.with(CHALLENGE_TARGETS)
    }

    /// Challenges no segments except SYNs and resets.
    pub const fn sparing_acknowledgements(self) -> Self {
        self.with(SPARES_ACKNOWLEDGEMENTS)
    }

    /// Challenges only whole segments of TCP.
    pub const fn challenging_only_tcp(self) -> Self {
        self.with(CHALLENGES_ONLY_TCP)
    }

    /// Challenges only whole segments of TCP and datagrams to [the port of
    /// DNS](crate::challenge::query::DNS_PORT).
    pub const fn challenging_only_tcp_and_dns(self) -> Self {
        self.with(CHALLENGES_ONLY_TCP_AND_DNS)
    }

    /// Lets verified sources draw first from the limits of the node, and leaves a
    /// [floor](crate::node::withheld) to the rest.
    pub const fn preferring_verified(self) -> Self {
        self.with(PREFERS_VERIFIED)
    }

    /// Whether they do.
    #[inline(always)]
    pub fn prefers_verified(self) -> bool {
        self.uses::<{ Feature::PrefersVerified as u8 }>()
    }

    /// Excludes a packet from the [reserve](crate::node::RESERVE_PART) of the node.
    #[inline(always)]
    pub const fn excluded_from_reserve(self) -> Self {
        self.with(EXCLUDED_FROM_RESERVE)
    }

    /// Whether the packet may not use it.
    #[inline(always)]
    pub fn is_excluded_from_reserve(self) -> bool {
        features::is_enabled::<{ Feature::Challenge as u8 }>() && self.has(EXCLUDED_FROM_RESERVE)
    }

    /// Enables the budget for new sources.
    pub const fn with_new_sources(self, over_budget: OverBudget) -> Self {
        self.with(match over_budget {
            OverBudget::Pass => NEW_SOURCES,
            OverBudget::Drop => NEW_SOURCES | OVER_BUDGET_DROP,
            OverBudget::Aggregate => NEW_SOURCES | OVER_BUDGET_AGGREGATE,
        })
    }

    /// Sets the policy of the node.
    #[inline(always)]
    pub const fn with_node(self, node_policy: u32) -> Self {
        let others = self.0 & !(u64::MAX << NODE_POLICY_SHIFT);
        Self(others | index(node_policy) << NODE_POLICY_SHIFT).with(NODE)
    }

    /// Puts a generation in force.
    pub const fn in_generation(self, generation: Generation) -> Self {
        match generation {
            Generation::First => self.without(GENERATION),
            Generation::Second => self.with(GENERATION),
        }
    }

    /// The word.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The settings of such a word.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The flags for limits, as a byte.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lowest byte is meant")]
    pub const fn of_limits(self) -> u8 {
        self.0 as u8
    }

    /// Creates settings that mean the same to limits as those with this byte.
    #[inline(always)]
    pub const fn from_limits(byte: u8) -> Self {
        Self(byte as u64)
    }

    /// The generation of the other tables that is in force.
    #[inline(always)]
    pub const fn generation(self) -> Generation {
        if self.has(GENERATION) {
            Generation::Second
        } else {
            Generation::First
        }
    }

    /// Passes everything until a time in a separate map, or disables that.
    pub const fn with_pass_all(self, pass_all: bool) -> Self {
        if pass_all {
            self.with(PASS_ALL)
        } else {
            self.without(PASS_ALL)
        }
    }

    /// The index of the policy for sources that no list entry gives another one.
    #[inline(always)]
    pub const fn default_policy(self) -> u32 {
        (self.0 >> DEFAULT_POLICY_SHIFT) as u32 & POLICY_MASK
    }

    /// Whether packets that would be dropped are counted and passed: all of them, or those of the
    /// interface.
    #[inline(always)]
    pub fn observe(self) -> bool {
        self.has(OBSERVE) || self.observes_here()
    }

    /// Whether that is so by the rule of the interface: then nothing that its packets do has an
    /// effect on other interfaces.
    #[inline(always)]
    pub fn observes_here(self) -> bool {
        features::is_enabled::<{ Feature::Interfaces as u8 }>() && self.has(OBSERVE_HERE)
    }

    /// Whether some interface has a rule of its own.
    #[inline(always)]
    pub fn has_interfaces(self) -> bool {
        self.uses::<{ Feature::Interfaces as u8 }>()
    }

    /// Whether every packet passes, whatever the lists say, until the time that the tables
    /// have for that.
    #[inline(always)]
    pub const fn pass_all(self) -> bool {
        self.has(PASS_ALL)
    }

    /// Whether time is read from the clock that ticks only every few milliseconds.
    #[inline(always)]
    pub fn coarse_clock(self) -> bool {
        self.uses::<{ Feature::CoarseClock as u8 }>()
    }

    /// Whether packets are classified.
    #[inline(always)]
    pub fn has_classes(self) -> bool {
        self.uses::<{ Feature::Classes as u8 }>()
    }

    /// Whether some class asks for more properties than protocol and ports.
    #[inline(always)]
    pub fn asks_headers(self) -> bool {
        self.uses::<{ Feature::Headers as u8 }>()
    }

    /// Whether some class asks where packets go to.
    #[inline(always)]
    pub fn asks_destination(self) -> bool {
        self.uses::<{ Feature::ToClasses as u8 }>()
    }

    /// Whether a packet may meet limits besides those of its source's policy.
    #[inline(always)]
    pub fn has_layers(self) -> bool {
        self.has_aggregates()
            || self.uses::<{ Feature::Further as u8 }>()
            || self.uses::<{ Feature::Node as u8 }>()
    }

    /// Whether the nodes of a cluster share limits of some policies.
    #[inline(always)]
    pub fn has_cluster(self) -> bool {
        self.uses::<{ Feature::Cluster as u8 }>()
    }

    /// Whether destinations may have limits.
    #[inline(always)]
    pub fn has_destinations(self) -> bool {
        self.uses::<{ Feature::Destinations as u8 }>()
    }

    /// Whether the wider prefixes around a source may have limits.
    #[inline(always)]
    pub fn has_aggregates(self) -> bool {
        self.uses::<{ Feature::Aggregates as u8 }>()
    }

    /// Whether a source may have been banned by a policy.
    #[inline(always)]
    pub fn has_policy_bans(self) -> bool {
        self.uses::<{ Feature::PolicyBans as u8 }>()
    }

    /// Whether established connections may have a [second allowance](crate::established).
    #[inline(always)]
    pub fn has_established(self) -> bool {
        self.uses::<{ Feature::Established as u8 }>()
    }

    /// Whether user space gets a sample of all packets.
    #[inline(always)]
    pub fn has_samples(self) -> bool {
        self.uses::<{ Feature::Samples as u8 }>()
    }

    /// Whether sources may have to prove themselves.
    #[inline(always)]
    pub fn has_challenge(self) -> bool {
        self.uses::<{ Feature::Challenge as u8 }>()
    }

    /// Whether not all connections are challenged, but those to some targets.
    #[inline(always)]
    pub const fn has_challenge_targets(self) -> bool {
        self.has(CHALLENGE_TARGETS)
    }

    /// Whether it asks nothing of segments besides SYNs and resets.
    #[inline(always)]
    pub const fn spares_acknowledgements(self) -> bool {
        self.has(SPARES_ACKNOWLEDGEMENTS)
    }

    /// Whether it asks nothing of packets that are no whole segments of TCP.
    #[inline(always)]
    pub const fn challenges_only_tcp(self) -> bool {
        self.has(CHALLENGES_ONLY_TCP)
    }

    /// Whether it asks nothing of packets that are neither whole segments of TCP nor datagrams to
    /// the port of DNS.
    #[inline(always)]
    pub const fn challenges_only_tcp_and_dns(self) -> bool {
        self.has(CHALLENGES_ONLY_TCP_AND_DNS)
    }

    /// Whether new sources have a budget.
    #[inline(always)]
    pub fn has_new_sources(self) -> bool {
        self.uses::<{ Feature::NewSources as u8 }>()
    }

    /// The treatment of packets of new sources over the budget.
    #[inline(always)]
    pub fn over_budget(self) -> OverBudget {
        if self.uses::<{ Feature::OverBudgetDrop as u8 }>() {
            OverBudget::Drop
        } else if self.uses::<{ Feature::OverBudgetAggregate as u8 }>() {
            OverBudget::Aggregate
        } else {
            OverBudget::Pass
        }
    }

    /// The index of the node's policy.
    #[inline(always)]
    pub fn node_policy(self) -> Option<u32> {
        if self.uses::<{ Feature::Node as u8 }>() {
            Some((self.0 >> NODE_POLICY_SHIFT) as u32)
        } else {
            None
        }
    }

    #[inline(always)]
    fn uses<const FEATURE: u8>(self) -> bool {
        features::is_enabled::<FEATURE>() && self.has(1u32.wrapping_shl(FEATURE.into()))
    }

    #[inline(always)]
    const fn has(self, flags: u32) -> bool {
        self.0 & flags as u64 != 0
    }

    const fn with(self, flags: u32) -> Self {
        Self(self.0 | flags as u64)
    }

    const fn without(self, flags: u32) -> Self {
        Self(self.0 & !(flags as u64))
    }
}

/// An index in two bytes. An index that does not fit becomes one that no policy has.
const fn index(policy: u32) -> u64 {
    if policy < u16::MAX as u32 {
        policy as u64
    } else {
        u16::MAX as u64
    }
}
const _: () = assert!(POLICIES_MAX < u16::MAX as u32);
