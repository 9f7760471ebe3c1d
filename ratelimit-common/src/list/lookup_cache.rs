//! The per-CPU cache of list lookups.
//!
//! A lookup takes a call, and an access to a hash map for each prefix length that may match. A
//! source that sends many packets gets the same result each time. So a CPU keeps recent results in
//! two small tables: one by address, which is consulted first, and one by prefix, where many
//! addresses share a result. Each result has the number of the lists' state in which it was found.
//! User space makes the number odd before it changes a list, and even again afterwards. While it is
//! odd, nothing is cached, and results of other states are ignored. If user space dies in between,
//! every packet looks the lists up. A result is only valid for packets of one
//! [generation](crate::generation).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Answer, Listed};
use crate::{
    Address, Family, Instant,
    address::words,
    generation::Generation,
    prefix_filter::{Level, WIDTHS},
};

/// The slots per CPU and address family in each of the two tables.
pub const SLOTS: usize = 128;

/// The position of the state's number in the prefix-length filter, whose words before the first
/// level are unused.
pub const STATE: u32 = WIDTHS + 1;

/// The key of a lookup: which prefix of a level is the longest around an address.
///
/// All addresses with the same word in the prefix-length filter and the same first bits, up to the
/// longest prefixes in the word, get the same result. If millions of addresses have a policy by a
/// short prefix, they share a single result.
///
/// The key includes the whole word, because it determines the lookups. A packet that still has an
/// older word uses another key, and its result is not used by later ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Question<A> {
    front: A,
    word: u64,
    /// The number of the lists' state, the generation, and the level.
    about: u64,
}

/// A slot: a question, and its answer.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct CachedAnswer {
    /// The first bits, as [`Address::octets`].
    front: [u8; 16],
    word: u64,
    about: u64,
    answer: Answer,
}

/// A slot: an address and its rules.
///
/// Its state was read before the first word of the prefix-length filter, so no packet stores a
/// result found with an older word.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct CachedAddress {
    address: [u64; 2],
    about: u64,
    /// The time from which the rules apply, in nanoseconds since boot, and their duration. A packet
    /// may be of an earlier time: CPUs read their clocks some time before they look here.
    from_ns: u64,
    for_ns: u64,
    listed: Listed,
}

/// The slots per CPU and address family for the policies of destinations.
pub const DESTINATIONS: usize = 512;

/// A slot: an address and the policy of packets to it. Lists with few destinations are consulted
/// for each packet, so the slot is found by the address alone, without a call.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct CachedDestination {
    address: [u64; 2],
    about: u64,
    /// The policy index, as returned by
    /// [`FamilyTables::destination`](crate::FamilyTables::destination).
    policy: u64,
}

/// The caches of a CPU besides that [by address](crate::cpu_state::Sources), which packets ask
/// first.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Cached {
    /// Results by prefix.
    pub answers: [CachedAnswer; SLOTS],
    /// Policies of destinations.
    pub destinations: [CachedDestination; DESTINATIONS],
}

/// The largest per-CPU element in the kernel (`PCPU_MIN_UNIT_SIZE`).
pub const ELEMENT_BYTES_MAX: usize = 32 << 10;
const _: () = assert!(size_of::<Cached>() <= ELEMENT_BYTES_MAX);

const IS_USED: u64 = 1 << 24;
const OF_SECOND: u64 = 1 << 25;

/// The state's number is above them. It is even, so its lowest bit is free for [`OF_SECOND`].
const STATE_SHIFT: u32 = 25;

/// A state in which nothing is cached.
pub const CHANGING: u64 = 1;

/// Whether user space is not changing the lists.
#[inline(always)]
pub const fn is_settled(state: u64) -> bool {
    state & CHANGING == 0
}

impl<A: Address> Question<A> {
    /// Creates the key for `address`, whose word in the prefix-length filter is `word`, at a level,
    /// encoded by [`Level::lengths_to_bits`], for the lists in this state and packets of this
    /// generation.
    #[inline(always)]
    pub fn new(state: u64, generation: Generation, level: u64, word: u64, address: A) -> Self {
        Self {
            front: Level::of_lengths(level).front(word, address),
            word,
            // 24 bits for the level.
            about: about(state, generation) | level,
        }
    }

    /// Returns the slot of the key among [`SLOTS`].
    #[inline(always)]
    pub fn slot(&self) -> usize {
        // Including the word, as otherwise the networks of a prefix would share one slot for all
        // their words.
        let word = self.word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49;
        (self.front.filter_bit() ^ word as u32) as usize & (SLOTS - 1)
    }
}

/// The number of the lists' state and the generation, with a bit that marks a used slot.
#[inline(always)]
const fn about(state: u64, generation: Generation) -> u64 {
    let generation = match generation {
        Generation::First => 0,
        Generation::Second => OF_SECOND,
    };
    state.wrapping_shl(STATE_SHIFT) | generation | IS_USED
}

/// The number of the lists' state and the generation. A free slot needs no mark: its time has
/// always expired.
#[inline(always)]
const fn state_of(state: u64, generation: Generation) -> u64 {
    state | generation as u64
}

/// An address as slots have it: an IPv4 address in one word.
#[inline(always)]
fn slot_words<A: Address>(address: A) -> [u64; 2] {
    let [first, second] = words(address);
    match A::FAMILY {
        Family::Ipv4 => [second >> 32, 0],
        Family::Ipv6 | Family::Other => [first, second],
    }
}

/// Whether a slot is of this address.
#[inline(always)]
fn is_address<A: Address>(slot: [u64; 2], address: A) -> bool {
    match A::FAMILY {
        Family::Ipv4 => slot[0] == slot_words(address)[0],
        Family::Ipv6 | Family::Other => slot == slot_words(address),
    }
}

impl CachedAddress {
    /// Stores the result for an address at `now`.
    #[inline(always)]
    pub fn new<A: Address>(
        address: A,
        state: u64,
        generation: Generation,
        answer: Answer,
        now: Instant,
    ) -> Self {
        Self {
            address: slot_words(address),
            about: state_of(state, generation),
            from_ns: now.as_nanos(),
            for_ns: answer.changes_at_ns(now).wrapping_sub(now.as_nanos()),
            listed: answer.at(now),
        }
    }

    /// Returns the rules for `address` at `now`, if they are cached.
    #[inline(always)]
    pub fn answer<A: Address>(
        &self,
        address: A,
        state: u64,
        generation: Generation,
        now: Instant,
    ) -> Option<Listed> {
        let is_of = is_address(self.address, address)
            && self.about == state_of(state, generation)
            && now.as_nanos().wrapping_sub(self.from_ns) < self.for_ns;
        is_of.then_some(self.listed)
    }

    /// The slot of an address among [`SLOTS`].
    #[inline(always)]
    pub fn slot<A: Address>(address: A) -> usize {
        address.filter_bit() as usize & (SLOTS - 1)
    }
}

impl CachedDestination {
    /// Stores the policy for an address.
    #[inline(always)]
    pub fn new<A: Address>(address: A, state: u64, generation: Generation, policy: u32) -> Self {
        Self {
            address: slot_words(address),
            about: about(state, generation),
            policy: policy.into(),
        }
    }

    /// Returns the policy index of packets to `address`, if it is cached.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "it was an index")]
    pub fn policy<A: Address>(
        &self,
        address: A,
        state: u64,
        generation: Generation,
    ) -> Option<u32> {
        let is_of = is_address(self.address, address) && self.about == about(state, generation);
        is_of.then_some(self.policy as u32)
    }

    /// The slot of an address among [`DESTINATIONS`].
    #[inline(always)]
    pub fn slot<A: Address>(address: A) -> usize {
        address.filter_bit() as usize & (DESTINATIONS - 1)
    }
}

impl CachedAnswer {
    /// Stores a result.
    #[inline(always)]
    pub fn new<A: Address>(question: &Question<A>, answer: Answer) -> Self {
        Self {
            front: question.front.octets(),
            word: question.word,
            about: question.about,
            answer,
        }
    }

    /// Returns the result, if it is cached.
    #[inline(always)]
    pub fn answer<A: Address>(&self, question: &Question<A>) -> Option<Answer> {
        if self.about != question.about
            || self.word != question.word
            || self.front != question.front.octets()
        {
            return None;
        }
        Some(self.answer)
    }
}

/// Whether a result found at `now` is stored, which is so for an eighth of all times. A source that
/// sends many packets soon has its slot. With many sources that send few packets each, and evict
/// each other's slots, most write nothing.
#[inline(always)]
pub const fn is_kept(now: Instant) -> bool {
    now.as_nanos() & 0x7000 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4, Ipv6, ListEntry};

    const NOW: Instant = Instant::from_nanos(1000);
    const OWN: Ipv4 = Ipv4::new([192, 0, 2, 1]);
    /// Prefixes of a /32 and of a /24, in the word of a narrow level.
    const TO_32: u64 = 1 | 1 << 8;
    const TO_24: u64 = 1 << 8;
    const FIRST: Generation = Generation::First;

    #[test]
    fn an_answer_is_for_one_question() {
        let own = of_narrow(4, TO_32, OWN);
        let slot = CachedAnswer::new(&own, Answer::of(policy()));
        assert_eq!(slot.answer(&own), Some(Answer::of(policy())));
        let wide = Question::new(4, FIRST, Ipv4::LEVELS.wide.lengths_to_bits(), TO_32, OWN);
        let narrow = Ipv4::LEVELS.narrow.lengths_to_bits();
        for other in [
            Question::new(4, Generation::Second, narrow, TO_32, OWN),
            of_narrow(4, TO_32, Ipv4::new([192, 0, 2, 2])),
            of_narrow(6, TO_32, OWN),
            of_narrow(4, TO_24, OWN),
            wide,
        ] {
            assert_eq!(slot.answer(&other), None, "{other:?}");
        }
    }

    #[test]
    fn addresses_share_an_answer_up_to_the_longest_prefixes_near_them() {
        let slot = CachedAnswer::new(&of_narrow(4, TO_24, OWN), Answer::of(policy()));
        let [beside, beyond] = [2, 3].map(|net| of_narrow(4, TO_24, Ipv4::new([192, 0, net, 99])));
        assert_eq!(slot.answer(&beside), Some(Answer::of(policy())));
        assert_eq!(slot.answer(&beyond), None);
    }

    #[test]
    fn the_same_front_of_another_length_is_another_question() {
        let front = Ipv4::new([192, 0, 2, 0]);
        let slot = CachedAnswer::new(&of_narrow(4, TO_24, front), Answer::of(policy()));
        assert_eq!(slot.answer(&of_narrow(4, TO_32, front)), None);
    }

    #[test]
    fn what_a_packet_found_with_an_older_word_is_no_answer_with_a_newer_one() {
        let slot = CachedAnswer::new(&of_narrow(4, TO_24, OWN), Answer::default());
        let shorter = TO_24 | TO_24 << 4;
        let filtered = TO_24 | 1 << 61;
        for newer in [shorter, filtered] {
            assert_eq!(slot.answer(&of_narrow(4, newer, OWN)), None);
        }
    }

    #[test]
    fn that_there_is_no_entry_is_an_answer() {
        let narrowest = Ipv6::LEVELS.narrowest.unwrap().lengths_to_bits();
        let question = Question::new(0, FIRST, narrowest, 1, Ipv6::new([7; 16]));
        let slot = CachedAnswer::new(&question, Answer::default());
        assert_eq!(slot.answer(&question), Some(Answer::default()));
    }

    #[test]
    fn a_ban_that_is_cached_ends_at_its_end() {
        let question = of_narrow(0, TO_32, OWN);
        let entry = ListEntry::new(false, Some(NOW), None);
        let slot = CachedAnswer::new(&question, Answer::of(entry));
        for at_ns in [999, 1000] {
            let now = Instant::from_nanos(at_ns);
            let answer = slot.answer(&question).unwrap().at(now);
            assert_eq!(answer.is_banned(), at_ns < 1000, "at {at_ns} ns");
        }
    }

    #[test]
    fn a_free_slot_answers_nothing() {
        let nobody = Question::new(0, FIRST, 0, 0, Ipv6::new([0; 16]));
        assert_eq!(CachedAnswer::default().answer(&nobody), None);
    }

    #[test]
    fn the_policy_of_a_destination_is_for_one_address_state_and_generation() {
        let slot = CachedDestination::new(OWN, 4, FIRST, 7);
        assert_eq!(slot.policy(OWN, 4, FIRST), Some(7));
        for (address, state, generation) in [
            (Ipv4::new([192, 0, 2, 2]), 4, FIRST),
            (OWN, 6, FIRST),
            (OWN, 4, Generation::Second),
        ] {
            assert_eq!(slot.policy(address, state, generation), None);
        }
        let free = CachedDestination::default();
        assert_eq!(free.policy(Ipv6::new([0; 16]), 0, FIRST), None);
    }

    #[test]
    fn an_answer_about_an_address_is_for_one_state_and_generation() {
        let slot = CachedAddress::new(OWN, 4, FIRST, Answer::of(policy()), NOW);
        let answer = |address, state, generation| slot.answer(address, state, generation, NOW);
        assert_eq!(answer(OWN, 4, FIRST), Some(policy().at(NOW)));
        assert_eq!(answer(Ipv4::new([192, 0, 2, 2]), 4, FIRST), None);
        assert_eq!(answer(OWN, 6, FIRST), None);
        assert_eq!(answer(OWN, 4, Generation::Second), None);
        let free = CachedAddress::default();
        assert_eq!(free.answer(Ipv6::new([0; 16]), 0, FIRST, NOW), None);
    }

    #[test]
    fn an_answer_about_an_address_ends_with_what_it_says() {
        const TICK: u64 = 1 << 22;
        let at = Instant::from_nanos;
        let nothing = ListEntry::new(false, None, None);
        let banned = ListEntry::new(false, Some(at(5 * TICK)), None);
        for (entry, ends) in [
            (banned, &[5][..]),
            (nothing.with_allow_until(at(3 * TICK)), &[3]),
            (banned.with_allow_until(at(3 * TICK)), &[3, 5]),
            (policy(), &[]),
        ] {
            let answer = Answer::of(entry);
            let mut now = NOW;
            for end in ends.iter().map(|ticks| ticks * TICK) {
                let slot = CachedAddress::new(OWN, 4, FIRST, answer, now);
                assert_eq!(slot.answer(OWN, 4, FIRST, at(now.as_nanos() - 1)), None);
                let before = at(end - 1);
                assert_eq!(slot.answer(OWN, 4, FIRST, before), Some(entry.at(before)));
                assert_eq!(slot.answer(OWN, 4, FIRST, at(end)), None);
                now = at(end);
            }
            let slot = CachedAddress::new(OWN, 4, FIRST, answer, now);
            let late = at(u64::MAX - 1);
            assert_eq!(slot.answer(OWN, 4, FIRST, late), Some(entry.at(late)));
        }
    }

    #[test]
    fn nothing_is_cached_while_a_list_changes() {
        assert!(is_settled(4) && !is_settled(5) && !is_settled(CHANGING));
    }

    #[test]
    fn the_number_of_the_state_is_no_word_of_a_level() {
        for levels in [Ipv4::LEVELS, Ipv6::LEVELS] {
            let first = levels.all_narrower().map(|level| level.words_of(0).start);
            assert!(first.min().unwrap() > STATE);
            assert!(STATE < levels.words());
        }
    }

    fn policy() -> ListEntry {
        ListEntry::new(false, None, Some(7))
    }

    fn of_narrow(state: u64, word: u64, address: Ipv4) -> Question<Ipv4> {
        Question::new(
            state,
            FIRST,
            Ipv4::LEVELS.narrow.lengths_to_bits(),
            word,
            address,
        )
    }
}
