//! Looks up the lists' rules for an address.

use ratelimit_common::{
    Instant, Settings,
    cpu_state::CpuState,
    generation::Generation,
    layers::NO_DESTINATION,
    list::{
        Answer, Listed, PrefixKey,
        lookup_cache::{self, CachedAddress, CachedAnswer, CachedDestination, Question, STATE},
    },
    parse::network,
    prefix_filter::{self, Level},
};

use crate::{
    atomic,
    first::first,
    frame::{self, Context},
    headers,
    interface::link_layer,
    interruption,
    maps::{self, FamilyMaps, OF_CPU},
    subprogram::opaque_ref,
};

/// Returns the rules in the entry of the longest prefix around `address` at `now`, in the
/// generation of these settings, on the CPU that keeps `cpu_state`.
#[inline(always)]
pub fn listed<A: FamilyMaps>(
    address: A,
    now: Instant,
    settings: Settings,
    cpu_state: Option<*mut CpuState>,
) -> Listed {
    // SAFETY: an aligned word of a live map value, which user space writes concurrently.
    let word = |index| A::filter_word(index).map_or(0, |word| unsafe { atomic::load(word) });
    if prefix_filter::is_free(address, word) {
        return Listed::NONE;
    }
    // Before the words that determine the lookups: a packet that reads an old word caches its
    // result under an old number.
    let state = state::<A>(now);
    let generation = settings.generation();
    if lookup_cache::is_settled(state)
        && let Some(slot) = cpu_state.map(|cpu_state| address_slot(cpu_state, address))
        && let Some(answer) = slot.answer(address, state, generation, now)
    {
        return answer;
    }
    let about = state << 1 | generation as u64;
    let in_level = |level: Level, word| {
        // A copy, because a value passed to a subprogram by reference is placed on the stack where
        // it is created.
        let listed = listed_by_level(&{ address }, word, level.lengths_to_bits(), now, about);
        Some(listed).filter(|listed| listed.is_found())
    };
    prefix_filter::longest_match(address, word, &in_level).unwrap_or_default()
}

subprograms! {
    /// Replaces `answer` by that of the prefix of a length around an address, if there is one. A
    /// subprogram, as the verifier would follow it once for each length.
    fn find_prefix[find_prefix_v4, find_prefix_v6]<A>(
        address: &A, word: u64, level: u64, about: u64, answer: &mut Answer
    ) -> bool {
        let (length, generation) = ((about >> 1) as u8, Generation::from_number(about & 1));
        let Some(front) = Level::of_lengths(level).candidate(word, *address, length) else {
            return false;
        };
        // While user space changes the lists, the found element may be removed and reused for
        // another prefix before it is copied: then one packet is judged by that entry, or by a
        // mixture of two. The state is odd during the change and a new one after it, so the result
        // is used for no other packet.
        // SAFETY: the memory of an element remains one of its map until the end of the RCU section,
        // which outlasts the program, and its words are valid for any bits.
        let Some(entry) = (unsafe { A::LISTS.get(PrefixKey::new(front, length)) }) else {
            return false;
        };
        *answer = Answer::of(*entry.of(generation));
        true
    }
}

/// The index of the policy of packets to `address` in a generation, as this CPU caches it.
#[inline(always)]
pub fn cached_destination<A: FamilyMaps>(address: A, generation: Generation) -> Option<u32> {
    if interruption::is_possible() {
        return None;
    }
    // While the lists change, the state is odd, so nothing is cached.
    // SAFETY: an aligned word of a live map value, which user space may write concurrently.
    let state = unsafe { atomic::load(A::filter_word(STATE)?) };
    destination_slot(address)?.policy(address, state, generation)
}

/// [`FamilyTables::destination`](ratelimit_common::FamilyTables::destination), which is cached.
#[inline(always)]
fn destination<A: FamilyMaps>(address: A, now: Instant, settings: Settings) -> u32 {
    let state = state::<A>(now);
    let policy = listed(address, now, settings, first(&OF_CPU)).destination();
    let policy = policy.unwrap_or(NO_DESTINATION);
    if lookup_cache::is_kept(now)
        && lookup_cache::is_settled(state)
        && let Some(slot) = destination_slot(address)
    {
        *slot = CachedDestination::new(address, state, settings.generation(), policy);
    }
    policy
}

/// The number of the lists' state, read before the lookup, so that the result is at least as new.
/// [`lookup_cache::CHANGING`] if nothing is cached.
#[inline(always)]
fn state<A: FamilyMaps>(now: Instant) -> u64 {
    if interruption::is_possible_beside(now.as_nanos()) {
        return lookup_cache::CHANGING;
    }
    if lookup_cache::is_kept(now) {
        return state_first::<A>();
    }
    // Nothing is cached, so the order does not matter.
    // SAFETY: an aligned word of a live map value, which user space may write concurrently.
    A::filter_word(STATE).map_or(lookup_cache::CHANGING, |word| unsafe { atomic::load(word) })
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
    let cached = first(A::LOOKUP_CACHE)?;
    // SAFETY: the index is below the number of slots, which belong to this CPU: where programs
    // interrupt each other, none comes here.
    Some(unsafe {
        &mut *(&raw mut (*cached).answers)
            .cast::<CachedAnswer>()
            .add(question.slot())
    })
}

/// The slot of an address in the state of a CPU, a live map value.
#[inline(always)]
fn address_slot<A: FamilyMaps>(cpu_state: *mut CpuState, address: A) -> &'static mut CachedAddress {
    // SAFETY: as above.
    unsafe {
        let slots =
            (&raw mut (*cpu_state).sources[A::FAMILY as usize].listed).cast::<CachedAddress>();
        &mut *slots.add(CachedAddress::slot(address))
    }
}

#[inline(always)]
fn destination_slot<A: FamilyMaps>(address: A) -> Option<&'static mut CachedDestination> {
    let cached = first(A::LOOKUP_CACHE)?;
    // SAFETY: as above.
    unsafe {
        let slots = (&raw mut (*cached).destinations).cast::<CachedDestination>();
        Some(&mut *slots.add(CachedDestination::slot(address)))
    }
}

subprograms! {
    /// Returns the rules in the longest prefix of a level, and caches them on this CPU.
    fn listed_by_level[listed_by_level_v4, listed_by_level_v6]<A>(
        address: &A, word: u64, level: u64, now: Instant, about: u64
    ) -> Listed {
        let (state, generation) = (about >> 1, Generation::from_number(about & 1));
        // Read again at each use: the compiler would keep its bits on the stack.
        let read = || *opaque_ref(address);
        let question = Question::new(state, generation, level, word, read());
        let slot = slot(&question).filter(|_| lookup_cache::is_settled(state));
        let answer = slot.as_ref().and_then(|slot| slot.answer(&question));
        let answer = answer.unwrap_or_else(|| {
            // Copied: to write zeros, the compiler would call a loop over bytes.
            let mut answer = *maps::empty::<Answer>();
            let _ = Level::of_lengths(level).longest_match::<A, _>(word, |length| {
                let about = u64::from(length) << 1 | generation as u64;
                find_prefix(address, word, level, about, &mut answer).then_some(())
            });
            if lookup_cache::is_kept(now)
                && let Some(slot) = slot
            {
                *slot = CachedAnswer::new(&question, answer);
            }
            answer
        });
        keep(read(), state, generation, answer, now);
        answer.at(now)
    }

    /// Returns the index of the policy for the destination of the packet of `context`. The address
    /// is read again.
    pub fn find_destination[find_destination_v4, find_destination_v6]<A>(
        context: *mut Context, now: Instant, generation: Generation
    ) -> u32 {
        let inner = headers::inner(context, generation);
        let (mut cursor, _) = frame::reread(context);
        if network(&mut cursor, link_layer(), inner) != Ok(A::PAYLOAD) {
            return NO_DESTINATION;
        }
        let Some([_, address]) = A::addresses(cursor) else {
            return NO_DESTINATION;
        };
        destination(address, now, Settings::new(0, false).in_generation(generation))
    }
}

/// Keeps the result for an address. A later level replaces it.
#[inline(always)]
fn keep<A: FamilyMaps>(
    address: A,
    state: u64,
    generation: Generation,
    answer: Answer,
    now: Instant,
) {
    if lookup_cache::is_kept(now)
        && lookup_cache::is_settled(state)
        && let Some(cpu_state) = first(&OF_CPU)
    {
        *address_slot(cpu_state, address) =
            CachedAddress::new(address, state, generation, answer, now);
    }
}
