//! The lists' information about an address.
//!
//! The daemon compiles allows, bans and policy prefixes into one entry per prefix, which also
//! includes the rules of the wider prefixes around it. So a single longest-match lookup is enough.

mod listed;
pub mod lookup_cache;
mod policy_action;
mod slots;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use self::{listed::Listed, policy_action::PolicyAction, slots::Slots};
use crate::{Address, Instant, layout::POLICIES_MAX};

/// The key of a list entry: a prefix.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct PrefixKey<A: Address> {
    length: u32,
    address: A,
}

impl<A: Address> PrefixKey<A> {
    /// The key of the prefix of `length` whose first address is `address`.
    #[inline(always)]
    pub const fn new(address: A, length: u8) -> Self {
        Self {
            length: length as u32,
            address,
        }
    }

    /// The first address.
    pub const fn address(&self) -> A {
        self.address
    }

    /// The length. `None` for an invalid key.
    pub fn length(&self) -> Option<u8> {
        u8::try_from(self.length).ok()
    }
}

/// The rules for the addresses of one prefix.
///
/// Bans and allows contain their ends, so both expire without a daemon. A ban of an allowed source
/// applies from the end of the allow until the end of the ban.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct ListEntry {
    /// The end of the ban, in nanoseconds since boot; 0 without a ban.
    banned_until_ns: u64,
    /// The fields, from the lowest bit: the index of the policy, the end of the allow, and flags.
    said: u64,
    slots: Slots,
}
const _: () = assert!(size_of::<ListEntry>() == 24);

const POLICY: u64 = 0x3fff;
const _: () = assert!(POLICIES_MAX as u64 - 1 <= POLICY);

/// The policy drops every packet, with `DRY_RUN` as a dry run. `DRY_RUN` alone is
/// [`PolicyAction::Limit`], which only user space reads.
const DROPS: u64 = 1 << 15;
const DRY_RUN: u64 = 1 << 14;

/// The position of the end of an allow, in ticks; 0 without one.
const END_SHIFT: u32 = 16;
const END: u64 = (1 << 43) - 1;

/// A tick is 2^22 ns, 4.2 ms, so that all 64-bit times fit, and one beyond them that means forever.
const TICK_SHIFT: u32 = 22;
const FOREVER: u64 = 1 << (u64::BITS - TICK_SHIFT);

/// In an entry of one word, the position of the policy index of a destination, plus one; 0 without
/// one.
const DESTINATION_SHIFT: u32 = 32;

const PROTECTED: u64 = 1 << 59;
const HAS_POLICY: u64 = 1 << 60;

/// In an entry of one word: its ban or allow is active, and there is one. The sign is of the ban,
/// as it is known by one instruction.
const BANNED: u64 = 1 << 63;
const FOUND: u64 = 1 << 62;
const ALLOWED: u64 = 1 << 61;

impl ListEntry {
    /// The entry that the daemon writes: permanently allowed or not, and banned until an end or
    /// not. It has a policy with an index below [`POLICIES_MAX`], or none.
    /// # Examples
    ///
    /// ```
    /// use ratelimit_common::{Instant, ListEntry};
    ///
    /// let end = Instant::from_nanos(10_000_000_000);
    /// let ban = ListEntry::new(false, Some(end), None);
    /// assert!(ban.is_banned(Instant::from_nanos(9_999_999_999)));
    /// assert!(!ban.is_banned(end));
    /// ```
    pub fn new(allowed: bool, banned_until: Option<Instant>, policy: Option<u32>) -> Self {
        let end = if allowed { FOREVER << END_SHIFT } else { 0 };
        let policy = policy.map_or(0, |policy| HAS_POLICY | (u64::from(policy) & POLICY));
        Self {
            banned_until_ns: banned_until.map_or(0, Instant::as_nanos),
            said: end | policy,
            slots: Slots::default(),
        }
    }

    /// Sets what the policy does with every packet.
    pub const fn with_action(self, action: Option<PolicyAction>) -> Self {
        let said = self.said & !(DROPS | DRY_RUN) | PolicyAction::bits(action);
        Self { said, ..self }
    }

    /// Returns what the policy does with every packet.
    pub const fn action(&self) -> Option<PolicyAction> {
        PolicyAction::of_bits(self.said)
    }

    /// Counts packets in these slots.
    pub fn counted_in(self, slots: Slots) -> Self {
        let slots = slots.with_destination(self.destination());
        Self { slots, ..self }
    }

    /// Sets the policy of packets to these addresses, with an index below [`POLICIES_MAX`], or
    /// none.
    pub fn as_destination(self, policy: Option<u32>) -> Self {
        let slots = self.slots.with_destination(policy);
        Self { slots, ..self }
    }

    /// The index of the policy of packets that go to the addresses.
    pub const fn destination(&self) -> Option<u32> {
        match self.slots.destination() {
            0 => None,
            number => Some(number.wrapping_sub(1) as u32),
        }
    }

    /// The slots that count packets decided by this entry.
    pub const fn slots(&self) -> Slots {
        self.slots.without_destination()
    }

    /// Allows the addresses until the first tick at or after `end`, at most 4.2 ms later.
    pub fn with_allow_until(self, end: Instant) -> Self {
        let ticks = end.as_nanos().div_ceil(1 << TICK_SHIFT);
        Self {
            said: self.said & !(END << END_SHIFT) | ticks << END_SHIFT,
            ..self
        }
    }

    /// Marks addresses that policies never ban.
    pub const fn protected(self) -> Self {
        Self {
            said: self.said | PROTECTED,
            ..self
        }
    }

    /// Whether policies never ban the addresses. Limits still apply.
    pub const fn is_protected(&self) -> bool {
        self.said & PROTECTED != 0
    }

    /// Whether the addresses are allowed at `now`. The end itself is not.
    pub const fn is_allowed(&self, now: Instant) -> bool {
        is_allowed(self.said, now)
    }

    /// The end of the allow, the last instant for forever; `None` without an allow.
    pub fn allowed_until(&self) -> Option<Instant> {
        let ticks = (self.said >> END_SHIFT) & END;
        (ticks != 0).then_some(Instant::from_nanos(match ticks {
            FOREVER.. => u64::MAX,
            ticks => ticks << TICK_SHIFT,
        }))
    }

    /// Whether the addresses are banned at `now`. The end itself is not.
    pub fn is_banned(&self, now: Instant) -> bool {
        now.as_nanos() < self.banned_until_ns
    }

    /// The end of the ban; `None` without a ban.
    pub fn banned_until(&self) -> Option<Instant> {
        (self.banned_until_ns != 0).then_some(Instant::from_nanos(self.banned_until_ns))
    }

    /// The policy index of these addresses; `None` for the default policy.
    pub const fn policy(&self) -> Option<u32> {
        Listed::from_bits(self.said).policy()
    }

    /// The rules at `now`.
    #[inline(always)]
    pub const fn at(self, now: Instant) -> Listed {
        Answer::of(self).at(now)
    }
}

#[inline(always)]
const fn is_allowed(said: u64, now: Instant) -> bool {
    now.as_nanos() >> TICK_SHIFT < (said >> END_SHIFT) & END
}

/// The result of a lookup, an entry or none, for all times.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Answer {
    /// The end of the ban, in nanoseconds since boot; 0 without a ban.
    banned_until_ns: u64,
    /// The entry without its ban, or 0.
    bits: u64,
    slots: Slots,
}

impl Answer {
    /// The result for this entry.
    #[inline(always)]
    pub const fn of(entry: ListEntry) -> Self {
        Self {
            banned_until_ns: entry.banned_until_ns,
            bits: entry.said | FOUND,
            slots: entry.slots,
        }
    }

    /// The next time after `now` at which the rules change, in nanoseconds since boot. The latest
    /// possible time if they never change.
    #[inline(always)]
    pub const fn changes_at_ns(self, now: Instant) -> u64 {
        let mut at_ns = u64::MAX;
        let allowed_until = (self.bits >> END_SHIFT) & END;
        if is_allowed(self.bits, now) && allowed_until < FOREVER {
            at_ns = allowed_until << TICK_SHIFT;
        }
        if now.as_nanos() < self.banned_until_ns && self.banned_until_ns < at_ns {
            at_ns = self.banned_until_ns;
        }
        at_ns
    }

    /// Returns the rules at `now`, where an allow beats a ban. The slot of the deciding rule
    /// replaces the end of the allow.
    #[inline(always)]
    pub const fn at(self, now: Instant) -> Listed {
        let mut bits = self.bits & !(END << END_SHIFT);
        let mut slot = self.slots.policy();
        if is_allowed(self.bits, now) {
            bits |= ALLOWED;
            slot = self.slots.allow();
        } else if now.as_nanos() < self.banned_until_ns {
            bits |= BANNED;
            slot = self.slots.ban();
        }
        let destination = (self.slots.destination() as u64) << DESTINATION_SHIFT;
        Listed::from_bits(bits | destination | (slot as u64) << END_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 1 << TICK_SHIFT;

    #[test]
    fn a_ban_ends_at_its_end() {
        for until in [1, u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, u64::MAX] {
            let entry = ListEntry::new(false, Some(at(until)), None);
            assert_eq!(entry.banned_until(), Some(at(until)));
            assert!(entry.is_banned(at(until - 1)));
            assert!(!entry.is_banned(at(until)));
        }
    }

    #[test]
    fn an_allow_ends_at_the_first_tick_behind_its_end() {
        for until in [1, TICK, TICK + 1, 1 << 32, u64::MAX - TICK] {
            let entry = ListEntry::default().with_allow_until(at(until));
            let end = entry.allowed_until().unwrap().as_nanos();
            assert!((until..until + TICK).contains(&end), "{until}: {end}");
            assert!(entry.is_allowed(at(end - 1)) && !entry.is_allowed(at(end)));
            let again = entry.with_allow_until(at(end));
            assert_eq!(again, entry, "an end that is one stays");
        }
    }

    #[test]
    fn an_allow_for_ever_has_no_end() {
        let forever = ListEntry::new(true, None, Some(7));
        assert!(forever.is_allowed(at(u64::MAX)));
        assert_eq!(forever.allowed_until(), Some(at(u64::MAX)));
        let other = ListEntry::new(false, None, Some(7)).with_allow_until(at(u64::MAX));
        assert_eq!(other, forever);
        let none = forever.with_allow_until(at(0));
        assert_eq!((none.allowed_until(), none.policy()), (None, Some(7)));
    }

    #[test]
    fn an_entry_says_at_each_time_what_holds_then() {
        let now = at(9 * TICK);
        let bans = [None, Some(now), Some(at(9 * TICK + 1))];
        let allows = [0, 9 * TICK, 10 * TICK, u64::MAX].map(at);
        for (until, allowed_until) in bans
            .into_iter()
            .flat_map(|ban| allows.map(|end| (ban, end)))
        {
            for policy in [None, Some(0), Some(POLICIES_MAX - 1)] {
                let entry = ListEntry::new(false, until, policy).with_allow_until(allowed_until);
                assert_eq!((entry.banned_until(), entry.policy()), (until, policy));
                for entry in [entry, entry.protected()] {
                    let listed = entry.at(now);
                    assert!(listed.is_found());
                    let is_allowed = allowed_until > now;
                    assert_eq!(listed.is_banned(), until > Some(now) && !is_allowed);
                    assert_eq!(listed.is_allowed(), is_allowed);
                    assert_eq!(listed.is_protected(), entry.is_protected());
                    assert_eq!(listed.policy(), policy);
                }
            }
        }
    }

    #[test]
    fn a_packet_is_counted_for_what_decides() {
        let now = at(9 * TICK);
        let slots = Slots::new(11, 22, u16::MAX);
        for (until, allowed_until, slot) in [
            (None, 0, u16::MAX),
            (Some(now), 9 * TICK, u16::MAX),
            (Some(at(u64::MAX)), 9 * TICK, 22),
            (None, u64::MAX, 11),
            (Some(at(u64::MAX)), 10 * TICK, 11),
        ] {
            let entry = ListEntry::new(false, until, Some(7)).with_allow_until(at(allowed_until));
            let listed = entry.protected().counted_in(slots).at(now);
            assert_eq!(listed.slot(), slot);
            assert_eq!((listed.policy(), listed.is_protected()), (Some(7), true));
            assert_eq!(entry.at(now).slot(), 0);
        }
    }

    #[test]
    fn the_policy_of_a_destination_stands_beside_all_else() {
        let now = at(9 * TICK);
        let slots = Slots::new(u16::MAX, u16::MAX, u16::MAX);
        for index in [None, Some(0), Some(POLICIES_MAX - 1)] {
            let entry = ListEntry::new(true, Some(at(u64::MAX)), Some(7)).as_destination(index);
            for entry in [entry, entry.counted_in(slots), entry.as_destination(index)] {
                assert_eq!((entry.destination(), entry.policy()), (index, Some(7)));
                let listed = entry.at(now);
                assert_eq!((listed.destination(), listed.policy()), (index, Some(7)));
                assert!(listed.is_allowed() && !listed.is_banned() && !listed.is_protected());
            }
            let counted = entry.counted_in(slots);
            assert_eq!((counted.slots(), counted.at(now).slot()), (slots, u16::MAX));
        }
    }

    #[test]
    fn a_policy_drops_what_no_ban_drops_and_counts_it() {
        let (end, slots) = (at(9 * TICK), Slots::new(11, 22, 33));
        for policy in [None, Some(0), Some(POLICIES_MAX - 1)] {
            let entry = ListEntry::new(false, Some(end), policy).counted_in(slots);
            for action in [None, Some(PolicyAction::Limit)] {
                let entry = entry.with_action(action);
                assert!(entry.at(at(0)).is_refused() && !entry.at(end).is_refused());
                assert_eq!((entry.action(), entry.policy()), (action, policy));
            }
            for action in [PolicyAction::Drop, PolicyAction::Observe] {
                let entry = entry.with_action(Some(action));
                assert_eq!((entry.action(), entry.policy()), (Some(action), policy));
                let (banned, dropped) = (entry.at(at(0)), entry.at(end));
                assert!(banned.is_refused() && dropped.is_refused() && !dropped.is_banned());
                assert_eq!((banned.slot(), dropped.slot()), (22, 33));
                assert!(banned.is_refused() && banned.is_banned());
                assert!(dropped.is_refused() && !dropped.is_banned());
                assert!(!banned.is_dry_run());
                assert_eq!(dropped.is_dry_run(), action == PolicyAction::Observe);
                assert_eq!(entry.with_action(None).action(), None);
            }
        }
    }

    #[test]
    fn an_entry_without_a_word_says_nothing() {
        let entry = ListEntry::default();
        assert!(!entry.is_allowed(at(0)) && !entry.is_banned(at(0)));
        assert_eq!((entry.banned_until(), entry.policy()), (None, None));
        assert_eq!(entry.allowed_until(), None);
        assert_eq!(Answer::default().at(at(u64::MAX)), Listed::default());
        assert!(!Listed::default().is_found());
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }
}
