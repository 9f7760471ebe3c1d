//! What the lists say about an address.

use ratelimit_common::{
    Instant, Ipv4, Ipv6, ListEntry,
    guard::{self, Level},
    list::PrefixKey,
};

use crate::{atomic, maps::FamilyMaps, subprograms::unknown};

/// The entry of the longest prefix around `address`, as it is at `now`: a ban is one that never ends, or none.
#[inline(always)]
pub fn entry<A: LevelCode>(address: A, now: Instant) -> Option<ListEntry> {
    // SAFETY: an aligned word of a live map value, which user space writes meanwhile.
    let word = |index| A::guard_word(index).map_or(0, |word| unsafe { atomic::load(word) });
    guard::longest_match(address, word, |level, word| {
        ListEntry::from_bits(address.listed(word, level.lengths_to_bits(), now.as_nanos()))
    })
}

/// [`Level::longest_match`], in a subprogram of its own: the verifier follows its loop once.
pub trait LevelCode: FamilyMaps {
    fn listed(&self, word: u64, level: u64, at_ns: u64) -> u64;
}

#[inline(always)]
fn longest_match<A: FamilyMaps>(address: A, word: u64, level: u64) -> Option<ListEntry> {
    Level::of_lengths(level).longest_match(word, address, |front, length| {
        // SAFETY: elements of a map without preallocation live until the end of the RCU section, which outlasts the program.
        unsafe { A::LISTS.get(PrefixKey::new(front, length)) }.copied()
    })
}

macro_rules! of_family {
    ($address:ty, $subprogram:ident) => {
        impl LevelCode for $address {
            #[inline(always)]
            fn listed(&self, word: u64, level: u64, at_ns: u64) -> u64 {
                unknown($subprogram(self, word, level, at_ns))
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
            address: *const $address,
            word: u64,
            level: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let Some(address) = (unsafe { address.as_ref() }) else {
                return 0;
            };
            let entry = longest_match(*address, word, level);
            entry.map_or(0, |entry| entry.to_bits(Instant::from_nanos(at_ns)))
        }
    };
}

of_family!(Ipv4, longest_match_v4);
of_family!(Ipv6, longest_match_v6);
