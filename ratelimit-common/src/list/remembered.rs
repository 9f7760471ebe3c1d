//! Answers of the lists that a CPU remembers.
//!
//! To ask the lists about an address takes a call, and a lookup in a hash map for each length of prefixes that is worth one. A
//! source that sends many packets gets the same answer each time. So a CPU keeps the last answers in a small table, each with
//! the generation of the lists that it was found in. User space makes the number odd before it changes a list, and even again
//! when it has: while it is odd nothing is remembered, and what was remembered under another one counts no more. Where user
//! space dies between the two, packets are judged by the lists themselves.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Answer, Listed};
use crate::{Address, Instant, guard::WIDTHS};

/// The slots of a CPU and address family.
pub const SLOTS: usize = 256;

/// The place of the generation among the words of the guard, of which those up to the first of a level are free.
pub const GENERATION: u32 = WIDTHS + 1;

/// A slot: what the lists say about one address.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Remembered {
    /// The address, as [`Address::octets`].
    address: [u8; 16],
    /// The generation and the level of the guard.
    question: u64,
    /// The answer.
    answer: Answer,
}

/// Which answer it is: the lengths of a level, as [`Level::lengths_to_bits`](crate::guard::Level::lengths_to_bits), in a
/// generation. `None` where nothing is to be remembered.
#[must_use]
#[inline(always)]
pub const fn question(generation: u64, level: u64) -> Option<u64> {
    // 24 bits for the level, and one that tells the slot from a free one.
    if generation & 1 == 0 {
        Some(generation.wrapping_shl(24) | level | IS_USED)
    } else {
        None
    }
}

const IS_USED: u64 = 1 << 24;

impl Remembered {
    /// What was found for `address`.
    #[inline(always)]
    pub fn new<A: Address>(address: &A, question: u64, answer: Answer) -> Self {
        Self {
            address: address.octets(),
            question,
            answer,
        }
    }

    /// What the lists say at `now`; `None` where it is not remembered.
    #[inline(always)]
    pub fn answer<A: Address>(&self, address: &A, question: u64, now: Instant) -> Option<Listed> {
        if self.question != question || self.address != address.octets() {
            return None;
        }
        Some(self.answer.at(now))
    }
}

/// The slot that an address has among [`SLOTS`].
#[inline(always)]
pub fn slot_of<A: Address>(address: &A) -> usize {
    address.filter_bit() as usize & (SLOTS - 1)
}

/// Whether an answer that was found at `now` is kept: those of an eighth of all times are. A source that sends many packets has
/// its slot soon, and of many sources that send few, which find their slots taken by others, most write nothing.
#[must_use]
#[inline(always)]
pub const fn is_kept(now: Instant) -> bool {
    now.as_nanos() & 0x7000 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4, Ipv6, ListEntry};

    const NOW: Instant = Instant::from_nanos(1000);
    const LEVEL: u64 = 0x17_2010;

    #[test]
    fn an_answer_is_for_one_address_and_one_question() {
        let question = question(4, LEVEL).unwrap();
        let [own, other] = [1, 2].map(|host| Ipv4::new([192, 0, 2, host]));
        let entry = ListEntry::new(false, None, Some(7));
        let slot = Remembered::new(&own, question, Answer::of(entry));
        assert_eq!(slot.answer(&own, question, NOW), Some(entry.at(NOW)));
        assert_eq!(slot.answer(&other, question, NOW), None);
        for another in [super::question(6, LEVEL), super::question(4, LEVEL + 1)] {
            assert_eq!(slot.answer(&own, another.unwrap(), NOW), None);
        }
    }

    #[test]
    fn that_there_is_no_entry_is_an_answer() {
        let question = question(0, LEVEL).unwrap();
        let own = Ipv6::new([7; 16]);
        let slot = Remembered::new(&own, question, Answer::NONE);
        assert_eq!(slot.answer(&own, question, NOW), Some(Listed::default()));
    }

    #[test]
    fn a_ban_that_is_remembered_ends_at_its_end() {
        let question = question(0, LEVEL).unwrap();
        let own = Ipv4::new([192, 0, 2, 1]);
        let entry = ListEntry::new(false, Some(NOW), None);
        let slot = Remembered::new(&own, question, Answer::of(entry));
        for at_ns in [999, 1000] {
            let now = Instant::from_nanos(at_ns);
            let answer = slot.answer(&own, question, now).unwrap();
            assert_eq!(answer.is_banned(), at_ns < 1000, "at {at_ns} ns");
        }
    }

    #[test]
    fn a_free_slot_answers_nothing() {
        let question = question(0, 0).unwrap();
        let nobody = Ipv6::new([0; 16]);
        assert_eq!(Remembered::default().answer(&nobody, question, NOW), None);
    }

    #[test]
    fn nothing_is_asked_while_a_list_changes() {
        assert_eq!(question(5, LEVEL), None);
        assert_ne!(question(4, LEVEL), question(6, LEVEL));
    }

    #[test]
    fn the_generation_is_no_word_of_a_level() {
        for levels in [Ipv4::LEVELS, Ipv6::LEVELS] {
            let first = levels.all_narrower().map(|level| level.words_of(0).start);
            assert!(first.min().unwrap() > GENERATION);
            assert!(GENERATION < levels.words());
        }
    }
}
