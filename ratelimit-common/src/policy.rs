//! A policy: a named list of limits. The name stays in user space; the kernel knows policies by
//! their index.

use core::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    Arrival, DropReason, Instant, Limit,
    algorithm::Algorithm,
    charge::outcome::Outcome,
    class::ClassSet,
    compact::region::Region,
    features::{self, Feature},
    layout::NODE_POLICIES,
    limit::LIMITS_MAX,
    strikes::BanRule,
};

/// The limits of a policy. All that match a packet must have room; then all are charged, otherwise
/// none.
///
/// With a single limit, a packet reads only one cache line: policies are aligned to 64 bytes.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Policy {
    len: u16,
    share_shift: u8,
    flags: u8,
    scope: u32,
    classes: ClassSet,
    /// The index of the policy beside it, plus one; 0 for none.
    further: u32,
    dropped: ClassSet,
    exempt: ClassSet,
    limits: [Limit; LIMITS_MAX],
    ban: BanRule,
    terms: u64,
    /// The slot of the state of limits that all packets share.
    slot: u32,
    /// A bit for each limit that has no room for any packet.
    denying: u32,
    /// The index of the policy of established connections, plus one; 0 for none.
    established: u32,
    reserved: [u32; 11],
}
const _: () = assert!(size_of::<Policy>() == 7 * 64);
const _: () = assert!(offset_of!(Policy, limits) + size_of::<Limit>() <= 64);

const OBSERVE: u8 = 1 << 0;
const HAS_LOG: u8 = 1 << 1;
const OF_PREFIXES: u8 = 1 << 2;
const OF_DESTINATION: u8 = 1 << 3;
const OF_CLUSTER: u8 = 1 << 4;
const WITHOUT_BUDGET: u8 = 1 << 5;

impl Policy {
    /// A policy of `limits`; `None` when there are more than [`LIMITS_MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// use core::time::Duration;
    /// use ratelimit_common::{Limit, Policy, Unit, algorithm::FixedWindow};
    ///
    /// let window = FixedWindow::new(1000, Duration::from_secs(1)).unwrap();
    /// let limit = Limit::new(window, Unit::Packets);
    /// assert_eq!(Policy::new(&[limit], 0, false).unwrap().len(), 1);
    /// assert!(Policy::new(&[limit; 9], 0, false).is_none());
    /// ```
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
        policy.len = u16::try_from(limits.len()).ok()?;
        for (index, limit) in limits.iter().enumerate() {
            policy.denying |= u32::from(limit.denies()) << index;
            policy.classes = policy.classes.or(limit.classes());
            if limit.is_log() {
                policy.flags |= HAS_LOG;
            }
        }
        Some(policy)
    }

    /// Makes it a policy of the node: a CPU draws `1 / 2^shift` of a limit at once, see
    /// [`node`](crate::node). Its state is at its scope modulo [`NODE_POLICIES`].
    pub const fn in_shares(self, shift: u8) -> Self {
        Self {
            share_shift: shift,
            slot: self.scope % NODE_POLICIES,
            ..self
        }
    }

    /// Returns the policy with its state in this slot of a destination or an interface, which is
    /// not among the first [`NODE_POLICIES`].
    pub const fn in_slot(self, slot: u32) -> Self {
        Self { slot, ..self }
    }

    /// The slot of the state of limits that all packets share: of the node, an interface or a
    /// destination.
    #[inline(always)]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// Whether it has a slot that was [given](Self::in_slot) to it.
    pub const fn has_given_slot(&self) -> bool {
        self.slot >= NODE_POLICIES
    }

    /// Marks it as a policy for packets to a destination.
    pub const fn for_destination(self) -> Self {
        Self {
            flags: self.flags | OF_DESTINATION,
            ..self
        }
    }

    /// Whether its limits are those of a destination.
    #[inline(always)]
    pub const fn is_of_destination(&self) -> bool {
        self.flags & OF_DESTINATION != 0
    }

    /// Returns the policy with the state of its limits in `regions`, in the order of the limits,
    /// for the store `compact`.
    pub fn in_regions(mut self, regions: &[Region]) -> Self {
        for (limit, region) in self.limits.iter_mut().zip(regions) {
            *limit = limit.in_region(*region);
        }
        self
    }

    /// Whether a limit is a token bucket, whose words go by a clock of their own.
    pub fn has_clock(&self) -> bool {
        self.limits()
            .any(|limit| matches!(limit.algorithm(), Algorithm::TokenBucket(_)))
    }

    /// Whether its token buckets fill as fast as those of another policy of the same scope.
    pub fn has_rates_of(&self, other: &Self) -> bool {
        let mut both = self.limits().zip(other.limits());
        both.all(
            |(limit, other)| match (limit.algorithm(), other.algorithm()) {
                (Algorithm::TokenBucket(bucket), Algorithm::TokenBucket(other)) => {
                    bucket.has_rate_of(&other)
                }
                _ => true,
            },
        )
    }

    /// Replaces `before`, of the same scope, at `now`, and keeps the usage. Without `before`, it
    /// starts at `now`.
    pub fn after(mut self, before: Option<&Self>, now: Instant) -> Self {
        for (index, limit) in self.limits.iter_mut().enumerate().take(self.len.into()) {
            let algorithm = limit.algorithm();
            let before = before.and_then(|before| before.limit(index));
            let algorithm = before.map_or_else(
                || algorithm.starting(now),
                |before| algorithm.after(&before.algorithm(), now),
            );
            *limit = limit.under(algorithm);
        }
        self
    }

    /// Returns the policy as a reader of the state of `other`, which has the same clocks. A word
    /// written by one of them means the same usage to both.
    pub fn reading(mut self, other: &Self) -> Self {
        for (index, limit) in self.limits.iter_mut().enumerate().take(self.len.into()) {
            if let Some(other) = other.limit(index) {
                let algorithm = limit.algorithm().reading(&other.algorithm());
                *limit = limit.under(algorithm);
            }
        }
        self
    }

    /// Marks it as a policy for prefixes around sources.
    pub const fn for_prefixes(self) -> Self {
        Self {
            flags: self.flags | OF_PREFIXES,
            ..self
        }
    }

    /// Whether its state is that of prefixes around sources.
    #[inline(always)]
    pub const fn is_of_prefixes(&self) -> bool {
        self.flags & OF_PREFIXES != 0
    }

    /// Returns the policy with the one at `index` beside it: a packet must have room under both,
    /// and each has its own state.
    pub const fn with_further(self, index: u32) -> Self {
        Self {
            further: index.wrapping_add(1),
            ..self
        }
    }

    /// Returns the policy that drops packets of the classes in `dropped`, and passes those of the
    /// classes in `exempt` without a limit.
    pub const fn with_actions(self, dropped: ClassSet, exempt: ClassSet) -> Self {
        Self {
            dropped,
            exempt,
            ..self
        }
    }

    /// The action on a packet of these classes before any limit counts it; [`Outcome::UNCOUNTED`]
    /// for none.
    #[inline(always)]
    pub const fn action_on(&self, packet: ClassSet) -> Outcome {
        if self.dropped.intersects(packet) {
            Outcome::refused(DropReason::Class, 0).observed_if(self.observe())
        } else if self.exempt.intersects(packet) {
            Outcome::EXEMPT
        } else {
            Outcome::UNCOUNTED
        }
    }

    /// Marks limits as shared by the nodes of a cluster. The terms distinguish it from other
    /// policies: a [lease](crate::lease) on other terms does not apply to it.
    pub const fn on_terms(self, terms: u64) -> Self {
        let flags = if terms == 0 {
            self.flags & !OF_CLUSTER
        } else {
            self.flags | OF_CLUSTER
        };
        Self {
            flags,
            terms,
            ..self
        }
    }

    /// Returns the terms of the policy.
    #[inline(always)]
    pub const fn terms(&self) -> u64 {
        self.terms
    }

    /// Whether the nodes of a cluster share some of its limits.
    #[inline(always)]
    pub const fn is_of_cluster(&self) -> bool {
        self.flags & OF_CLUSTER != 0
    }

    /// Returns the leased policy if it has the same terms, otherwise this one.
    #[inline(always)]
    pub fn or_leased<'a>(&'a self, leased: Option<&'a Self>) -> &'a Self {
        match leased {
            Some(leased) if leased.terms == self.terms => leased,
            _ => self,
        }
    }

    /// Returns the policy with another amount of the limit at `index`. The meaning of its words
    /// must not change.
    pub fn with_algorithm(mut self, index: usize, algorithm: impl Into<Algorithm>) -> Self {
        if let Some(limit) = self.limits.get_mut(index) {
            *limit = limit.under(algorithm.into());
        }
        self
    }

    /// Returns the index of the policy beside this one, if there is one.
    #[inline(always)]
    pub const fn further(&self) -> Option<u32> {
        if self.has_further() {
            Some(self.further.wrapping_sub(1))
        } else {
            None
        }
    }

    /// Whether there is a policy beside it.
    #[inline(always)]
    pub const fn has_further(&self) -> bool {
        self.further != 0
    }

    /// Returns the policy that charges refused packets of established connections to the policy at
    /// `index`.
    pub const fn with_established(self, index: u32) -> Self {
        Self {
            established: index.wrapping_add(1),
            ..self
        }
    }

    /// Returns the index of the policy for established connections, if there is one.
    #[inline(always)]
    pub const fn established(&self) -> Option<u32> {
        match self.established {
            0 => None,
            index => Some(index.wrapping_sub(1)),
        }
    }

    /// Returns the policy for established connections. It takes nothing from the budget for new
    /// sources, because forged sources have no connections.
    pub const fn for_established(self) -> Self {
        Self {
            flags: self.flags | WITHOUT_BUDGET,
            ..self
        }
    }

    /// Whether its state is made without a budget for new sources.
    #[inline(always)]
    pub const fn is_without_budget(&self) -> bool {
        self.flags & (OF_PREFIXES | WITHOUT_BUDGET) != 0
    }

    /// Sets the rule for banning sources that repeatedly exceed its limits.
    pub const fn with_ban(self, ban: BanRule) -> Self {
        Self { ban, ..self }
    }

    /// The rule for banning sources that repeatedly exceed its limits; `None` if they are never
    /// banned.
    #[inline(always)]
    pub const fn ban(&self) -> Option<&BanRule> {
        if self.ban.is_none() {
            None
        } else {
            Some(&self.ban)
        }
    }

    /// Whether the limit at `index` has no room for any packet, as `{ bytes = 1, per = "1h" }` has
    /// none. It says which packets are not wanted, and not how many of them are too many.
    #[inline(always)]
    pub const fn denies(&self, index: u8) -> bool {
        self.denying.wrapping_shr(index as u32) & 1 != 0
    }

    /// The number of limits, at most [`LIMITS_MAX`].
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the policy limits nothing.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The limits.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().take(self.len())
    }

    /// The limit at `index`; `None` past the last.
    #[inline(always)]
    pub fn limit(&self, index: usize) -> Option<&Limit> {
        if index < self.len() {
            self.limits.get(index)
        } else {
            None
        }
    }

    /// The first limit that counts a packet, and its index.
    #[inline(always)]
    pub fn first_counting(&self, arrival: &Arrival) -> Option<(usize, &Limit)> {
        for index in 0..LIMITS_MAX {
            let limit = self.limit(index)?;
            if limit.classes().counts(arrival.classes) {
                return Some((index, limit));
            }
        }
        None
    }

    /// Whether it has several limits.
    #[inline(always)]
    pub fn has_several(&self) -> bool {
        features::is_enabled_beside::<{ Feature::SeveralLimits as u8 }>(self.len.into())
            && self.len > 1
    }

    /// The limit of a policy that has just one.
    #[inline(always)]
    pub fn only_limit(&self) -> Option<&Limit> {
        let [limit, ..] = &self.limits;
        (!self.has_several()).then_some(limit)
    }

    /// The limit of a policy that has just one, which is a fixed window.
    #[inline(always)]
    pub fn only_fixed_window(&self) -> Option<&Limit> {
        self.only_limit().filter(|limit| limit.is_fixed_window())
    }

    /// The scope, which separates the state of this policy from that of others. Two policies whose
    /// words of state mean the same thing may share a scope, and with it the recorded usage of
    /// their sources.
    #[inline(always)]
    pub const fn scope(&self) -> u32 {
        self.scope
    }

    /// Whether a limit counts the packet.
    #[inline(always)]
    pub const fn counts(&self, arrival: &Arrival) -> bool {
        self.classes.counts(arrival.classes)
    }

    /// Whether a limit is a sliding log, whose state is not a word.
    #[inline(always)]
    pub fn has_log(&self) -> bool {
        features::is_enabled::<{ Feature::SlidingLog as u8 }>() && self.flags & HAS_LOG != 0
    }

    /// The binary logarithm of the part of a limit of the node that a CPU draws at once.
    #[inline(always)]
    pub const fn share_shift(&self) -> u8 {
        self.share_shift
    }

    /// Whether packets over a limit of this policy are counted and passed.
    #[inline(always)]
    pub const fn observe(&self) -> bool {
        self.flags & OBSERVE != 0
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{
        Unit,
        algorithm::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket},
    };

    #[test]
    fn the_capacity_is_the_first_parameter_of_every_algorithm() {
        let second = Duration::from_secs(1);
        let algorithms: [Algorithm; 4] = [
            FixedWindow::new(77, second).unwrap().into(),
            SlidingWindow::new(77, second).unwrap().into(),
            SlidingLog::new(77, second).unwrap().into(),
            TokenBucket::new(5, second, 77).unwrap().into(),
        ];
        for algorithm in algorithms {
            assert_eq!(algorithm.capacity(), 77);
            assert_eq!(Limit::new(algorithm, Unit::Packets).capacity(), 77);
        }
    }
}
