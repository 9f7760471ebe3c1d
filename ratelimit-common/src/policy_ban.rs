//! Bans by policies: the packet of the last strike bans its source.
//!
//! Until user space adopts such a ban, it is in a hash map of its own, by source. User space moves
//! it to the lists, where manual bans are. So the map is nearly always empty, and a
//! [filter](crate::source_filter) keeps traffic from being looked up there.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, BanRule, Evidence, Instant, Policy, strikes::Strike, tables::FamilyTables};

/// Counts a strike of `source`, whose policy is `policy`, where it may lead to a ban, and answers
/// whether a ban is due.
#[inline(always)]
pub fn strike<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    strike: &Strike<'_>,
    tables: &impl FamilyTables<A>,
) -> bool {
    rule(policy, strike).is_some_and(|rule| tables.count_strike(source, rule, strike.at))
}

/// Returns the rule by which a strike may lead to a ban. Drops by a limit that admits nothing are
/// no strikes: it is a way to deny.
#[inline(always)]
pub fn rule<'a>(policy: Option<&'a Policy>, strike: &Strike<'_>) -> Option<&'a BanRule> {
    let policy = policy.filter(|policy| strike.may_ban && !policy.denies(strike.limit));
    policy.and_then(Policy::ban)
}

/// Bans `source` by the rule of `policy`: from the next packet on, unless the source may be forged,
/// or there are too many bans. Then it stays limited. Strikes of a connection are followed by
/// others before they ban ([`BanRule::confirm`]).
#[inline(always)]
pub fn ban<A, T>(source: &A, policy: Option<&Policy>, strike: &Strike<'_>, tables: &T)
where
    A: Address,
    T: FamilyTables<A>,
{
    let Some((policy, rule)) = policy.and_then(|policy| Some((policy, policy.ban()?))) else {
        return;
    };
    let is_connected = FamilyTables::<A>::is_connected(tables, strike.frame);
    if !rule.bans_forgeable() && !tables.confirm_strike(source, policy, strike, is_connected) {
        if !is_connected {
            tables.count_ban_result(BanResult::Forgeable);
        }
        return;
    }
    if tables.is_exempt(source) {
        return;
    }
    let evidence = if is_connected {
        Evidence::Established
    } else {
        Evidence::Forgeable
    };
    let result = if !tables.take_ban(evidence, strike.at) {
        BanResult::TooMany
    } else if tables.ban(source, PolicyBan::new(policy, rule, strike)) {
        BanResult::Banned
    } else {
        BanResult::NoRoom
    };
    tables.count_ban_result(result);
}

/// A ban of a source that repeatedly exceeded its limits.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct PolicyBan {
    /// The expiry, in nanoseconds since boot; the end itself is outside.
    pub until_ns: u64,
    /// The start.
    pub at_ns: u64,
    /// The scope of the policy.
    pub scope: u32,
    /// The number of strikes that led to the ban.
    pub strikes: u32,
    /// The index of the limit that refused the last.
    pub limit: u32,
    /// Always zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<PolicyBan>() == 32);

impl PolicyBan {
    /// In the place of a ban, marks a source that policies do not ban.
    pub const EXEMPT: Self = Self {
        until_ns: 0,
        at_ns: 0,
        scope: 0,
        strikes: 0,
        limit: 0,
        reserved: 0,
    };

    /// The ban by `rule`, that of `policy`, with a strike.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most AFTER_MAX strikes are counted"
    )]
    pub fn new(policy: &Policy, rule: &BanRule, strike: &Strike<'_>) -> Self {
        Self {
            until_ns: rule.until(strike.at).as_nanos(),
            at_ns: strike.at.as_nanos(),
            scope: policy.scope(),
            strikes: rule.after() as u32,
            limit: strike.limit.into(),
            reserved: 0,
        }
    }

    /// Whether it marks a [exempt](Self::EXEMPT) source.
    #[inline(always)]
    pub const fn is_exempt(&self) -> bool {
        self.until_ns == 0
    }

    /// Whether the source is banned at `now`.
    #[inline(always)]
    pub const fn is_active(&self, now: Instant) -> bool {
        now.as_nanos() < self.until_ns
    }

    /// Whether this is a new ban after `before` had ended. Until then, only packets that were under
    /// way together with those of `before` cause strikes.
    pub const fn follows(&self, before: &Self) -> bool {
        self.at_ns >= before.until_ns
    }
}

/// The result for a source that a policy was to ban.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum BanResult {
    /// It is banned.
    Banned = 0,
    /// It has no TCP connection to this host, and may be forged.
    Forgeable = 1,
    /// There were as many bans of such sources within a minute as there may be.
    TooMany = 2,
    /// The map of bans was full.
    NoRoom = 3,
}

impl BanResult {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 4] = [Self::Banned, Self::Forgeable, Self::TooMany, Self::NoRoom];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Banned => "banned",
            Self::Forgeable => "forgeable",
            Self::TooMany => "too-many",
            Self::NoRoom => "no-room",
        }
    }
}

/// The counters of one CPU.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Tally {
    /// The number of sources with each [`BanResult`].
    pub results: [u64; BanResult::ALL.len()],
    /// Events about bans that found the ring full.
    pub events_lost: u64,
}
