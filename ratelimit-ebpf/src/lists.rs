//! What the lists say about an address.

use ratelimit_common::{
    Instant, Ipv4, Ipv6, ListEntry, Settings,
    generation::{ByGeneration, Generation},
    layers::NO_DESTINATION,
    list::{
        Answer, Listed, PrefixKey,
        lookup_cache::{self, CachedAnswer, CachedDestination, Question, STATE},
    },
    prefix_filter::{self, InLevel, Level},
};

use crate::{
    atomic,
    first::First as _,
    interruption,
    maps::FamilyMaps,
    subprograms::{Subprograms, unknown},
};

/// What the entry of the longest prefix around `address` says at `now`, in the generation of these settings.
#[inline(always)]
pub fn listed<A: Subprograms>(address: A, now: Instant, settings: Settings) -> Listed {
    // SAFETY: an aligned word of a live map value, which user space writes meanwhile.
    let word = |index| A::filter_word(index).map_or(0, |word| unsafe { atomic::load(word) });
    prefix_filter::longest_match(
        address,
        word,
        &Lists {
            address,
            now,
            settings,
        },
    )
    .unwrap_or_default()
}

/// The lists as they are asked about one address.
struct Lists<A> {
    address: A,
    now: Instant,
    settings: Settings,
}

impl<A: Subprograms> InLevel<Listed> for Lists<A> {
    #[inline(always)]
    fn longest_match(&self, level: Level, word: u64) -> Option<Listed> {
        let at_ns = self.now.as_nanos();
        // A copy: what a subprogram reads by reference is put on the stack where it is made.
        let address = self.address;
        let generation = self.settings.generation();
        let bits = listed_at_level(&address, word, level.lengths_to_bits(), at_ns, generation);
        Some(Listed::from_bits(bits)).filter(|listed| listed.is_found())
    }
}

/// [`Level::longest_match`], in a subprogram of its own: the verifier follows its loop once.
#[inline(always)]
fn listed_at_level<A: Subprograms>(
    address: &A,
    word: u64,
    level: u64,
    at_ns: u64,
    generation: Generation,
) -> u64 {
    if let Some(answer) = cached(*address, word, level, at_ns, generation) {
        return answer.to_bits();
    }
    unknown((A::LONGEST_MATCH)(
        address,
        word,
        level,
        at_ns,
        generation as u64,
    ))
}

#[inline(always)]
fn longest_match<A: FamilyMaps>(
    address: A,
    word: u64,
    level: u64,
) -> Option<&'static ByGeneration<ListEntry>> {
    Level::of_lengths(level).longest_match(word, address, |front, length| {
        // While user space changes the lists, an element that was found may be taken away, and serve another prefix before it is
        // copied: one packet is then judged by that entry, or by halves of two. The state is odd meanwhile and
        // another one after, so that answer is given to no other packet.
        // SAFETY: the memory of an element stays one of its map until the end of the RCU section, which outlasts the program, and
        // its words are valid for any bits.
        unsafe { A::LISTS.get(PrefixKey::new(front, length)) }
    })
}

/// The answer that this CPU caches, as [`listed_at_level`] gives it.
#[inline(always)]
fn cached<A: FamilyMaps>(
    address: A,
    word: u64,
    level: u64,
    at_ns: u64,
    generation: Generation,
) -> Option<Listed> {
    if interruption::is_possible() {
        return None;
    }
    // SAFETY: an aligned word of a live map value, which user space writes meanwhile.
    let state = unsafe { atomic::load(A::filter_word(STATE)?) };
    if !lookup_cache::is_settled(state) {
        return None;
    }
    let question = Question::new(state, generation, level, word, address);
    slot(&question)?.answer(&question, Instant::from_nanos(at_ns))
}

/// The index of the policy of packets to `address` in a generation, as this CPU caches it.
#[inline(always)]
pub fn cached_destination<A: FamilyMaps>(address: A, generation: Generation) -> Option<u32> {
    if interruption::is_possible() {
        return None;
    }
    // While the lists change, the state is odd, under which nothing is cached.
    // SAFETY: an aligned word of a live map value, which user space writes meanwhile.
    let state = unsafe { atomic::load(A::filter_word(STATE)?) };
    destination_slot(address)?.policy(address, state, generation)
}

/// [`in_place::destination`](ratelimit_common::in_place::destination), which is cached.
#[inline(always)]
pub fn destination<A: Subprograms>(address: A, now: Instant, settings: Settings) -> u32 {
    let state = state_to_cache::<A>(now);
    let policy = listed(address, now, settings).destination();
    let policy = policy.unwrap_or(NO_DESTINATION);
    if lookup_cache::is_settled(state)
        && let Some(slot) = destination_slot(address)
    {
        *slot = CachedDestination::new(address, state, settings.generation(), policy);
    }
    policy
}

/// The number of the lists' state, before the lists are asked: what is found is then as new, or newer. [`lookup_cache::CHANGING`] where the answer is not kept.
#[inline(always)]
fn state_to_cache<A: FamilyMaps>(now: Instant) -> u64 {
    if lookup_cache::is_kept(now) && !interruption::is_possible() {
        state_first::<A>()
    } else {
        lookup_cache::CHANGING
    }
}

#[inline(always)]
fn state_first<A: FamilyMaps>() -> u64 {
    // SAFETY: as above.
    A::filter_word_mut(STATE).map_or(lookup_cache::CHANGING, |word| unsafe {
        atomic::load_first(word)
    })
}

#[inline(always)]
fn slot<A: FamilyMaps>(question: &Question<A>) -> Option<&'static mut CachedAnswer> {
    let cached = A::LOOKUP_CACHE.first_ptr()?;
    // SAFETY: the index is below the number of slots, which belong to this CPU: where programs interrupt each other, none comes here.
    Some(unsafe {
        &mut *(&raw mut (*cached).answers)
            .cast::<CachedAnswer>()
            .add(question.slot())
    })
}

#[inline(always)]
fn destination_slot<A: FamilyMaps>(address: A) -> Option<&'static mut CachedDestination> {
    let cached = A::LOOKUP_CACHE.first_ptr()?;
    // SAFETY: as above.
    unsafe {
        let slots = (&raw mut (*cached).destinations).cast::<CachedDestination>();
        Some(&mut *slots.add(CachedDestination::slot(address)))
    }
}

macro_rules! of_family {
    ($address:ty, $subprogram:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            address: *const $address,
            word: u64,
            level: u64,
            at_ns: u64,
            generation: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let Some(address) = (unsafe { address.as_ref() }) else {
                return 0;
            };
            let now = Instant::from_nanos(at_ns);
            let generation = match generation {
                0 => Generation::First,
                _ => Generation::Second,
            };
            let state = state_to_cache::<$address>(now);
            let entry = longest_match(*address, word, level);
            let answer = entry.map_or(Answer::NONE, |entry| Answer::of(*entry.of(generation)));
            if lookup_cache::is_settled(state) {
                let question = Question::new(state, generation, level, word, *address);
                if let Some(slot) = slot(&question) {
                    *slot = CachedAnswer::new(&question, answer);
                }
            }
            answer.at(now).to_bits()
        }
    };
}

of_family!(Ipv4, longest_match_v4);
of_family!(Ipv6, longest_match_v6);
