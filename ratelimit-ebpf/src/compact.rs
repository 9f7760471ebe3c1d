//! The `compact` store, in BPF arrays that user space can map into its memory.

use ratelimit_common::{
    Arrival, AtomicWords, DropReason, Instant, Limit, Policy,
    charge::{self, Outcome, Step, Words},
    compact::{self, Claim, Mix, SLOTS, Set, WORDS, word_at},
    features::{self, Feature},
    new_sources::Newcomer,
    store::{self, InsertError, Store},
};

use crate::{
    atomic,
    constant::Constant,
    limit_words::{self, LogBits},
    map_words::{MapLog, MapRing, MapWord, charge_fixed_window, count_inserted},
    maps::FamilyMaps,
    new_sources,
    steps::MapSteps,
    subprogram::{Packet, without_bounds},
};

#[unsafe(no_mangle)]
static COMPACT_SEED_0: Constant<u64> = Constant::new(0);
#[unsafe(no_mangle)]
static COMPACT_SEED_1: Constant<u64> = Constant::new(0);

/// Whether this is where the state of sources is.
#[inline(always)]
pub fn is_used() -> bool {
    features::is_enabled::<{ Feature::Compact as u8 }>()
}

/// A set in an element of a table.
#[derive(Clone, Copy)]
pub struct MapSet(pub *mut Set);

impl MapSet {
    #[inline(always)]
    fn word(self, index: u32) -> *mut u64 {
        // SAFETY: the set is a live map value, and the mask keeps the index within it.
        unsafe { self.0.cast::<u64>().add(index as usize & (WORDS - 1)) }
    }

    #[inline(always)]
    fn word_at(self, slot: usize) -> MapWord {
        MapWord(self.word(word_at(slot)))
    }
}

impl AtomicWords for MapSet {
    #[inline(always)]
    fn load(&self, index: u32) -> u64 {
        // SAFETY: an aligned word of a live map value.
        unsafe { atomic::load(self.word(index)) }
    }

    #[inline(always)]
    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(self.word(index), current, new) }
    }
}

/// [`compact::least_of`], in a way that the verifier continues once, instead of once per slot.
#[inline(always)]
fn least(set: &MapSet, limit: &Limit, at: Instant) -> usize {
    without_bounds(compact::least_of(set, limit, at) as u64, at) as usize
}

/// [`compact::find`] likewise.
#[inline(always)]
fn find(set: &MapSet, tag: u64, at: Instant) -> usize {
    without_bounds(compact::find(set, tag) as u64, at) as usize
}

/// The set in which the source with this tag has its slot of a limit.
#[inline(always)]
fn set<A: FamilyMaps>(limit: &Limit, tag: u64) -> Option<MapSet> {
    let set = A::COMPACT.get_ptr_mut(limit.region().set_of(tag));
    set.map(MapSet)
}

/// The word of a source without a slot, which gets one; else why not.
#[inline(always)]
fn claim<A: FamilyMaps>(
    limit: &Limit,
    set: MapSet,
    tag: u64,
    at: Instant,
    cost: u64,
) -> Result<MapWord, Outcome> {
    let claim = place_new(limit, set, tag, at, cost);
    if claim.is_new {
        count_inserted(A::FAMILY);
    }
    if claim.outcome.is_refused() {
        return Err(claim.outcome);
    }
    Ok(set.word_at(claim.slot))
}

subprograms! {
    /// Whether the state of a source is its own. Time does not matter.
    fn is_known[is_known_v4, is_known_v6]<A>(source: &A, policy: &Policy, packet: Packet) -> bool {
        let arrival = packet.arrived(Instant::default());
        store::is_own(&CompactWords::new(source, policy.scope()), policy, &arrival)
    }

    /// Charges a packet of the source with this tag to the limits of a policy without logs. At
    /// least one of them counts it.
    fn charge_slot_words[charge_slot_words_v4, charge_slot_words_v6]<A>(
        tag: u64, policy: &Policy; arrival
    ) -> Outcome {
        let own = |_, limit: &Limit| {
            let set = set::<A>(limit, tag)?;
            let slot = find(&set, tag, arrival.at);
            (slot < SLOTS).then(|| set.word_at(slot))
        };
        if let Some(outcome) = charge::charge_two(policy, own, arrival) {
            return outcome;
        }
        let Some(mut steps) = MapSteps::of_this_cpu() else {
            return Outcome::refused(DropReason::Contended, 0);
        };
        let at = arrival.at;
        let check = |limit: &Limit, _, cost| {
            let set = set::<A>(limit, tag).ok_or(NO_STATE)?;
            let slot = find(&set, tag, at);
            if slot < SLOTS {
                let step = Step::plan(limit, arrival, cost, set.load(word_at(slot)), slot as u64);
                return step.ok_or(Outcome::LIMITED);
            }
            let outcome = check_new(limit, set, at, cost);
            if outcome.is_refused() {
                return Err(outcome);
            }
            Ok(Step::at(SLOTS as u64))
        };
        let charge = |limit: &Limit, _, cost, step: Step| {
            let Some(set) = set::<A>(limit, tag) else {
                return NO_STATE;
            };
            let slot = step.slot as usize;
            let word = if slot & SLOTS != 0 {
                claim::<A>(limit, set, tag, at, cost)
            } else if set.compare_exchange(word_at(slot), step.word, step.next).is_ok() {
                return Outcome::PASSED;
            } else {
                Ok(set.word_at(slot))
            };
            match word {
                Ok(word) => limit_words::charge_word(limit, word, at, cost),
                Err(refused) => refused,
            }
        };
        charge::charge_steps(|index| policy.limit(index), check, charge, steps.get(), arrival)
    }

    /// [`compact::check_new`].
    fn check_new(limit: &Limit, set: MapSet, at: Instant, cost: u64) -> Outcome {
        compact::check_new(&set, least(&set, limit, at), limit, at, cost)
    }

    /// [`compact::place_new`].
    fn place_new(limit: &Limit, set: MapSet, tag: u64, at: Instant, cost: u64) -> Claim {
        compact::place_new(&set, least(&set, limit, at), tag, limit, at, cost)
    }

    /// Whether the source with this tag has room under a limit. A subprogram, as the verifier would
    /// follow its branches once for each limit and family.
    fn check_in_set(limit: &Limit, set: MapSet, tag: u64, at: Instant, cost: u64) -> Outcome {
        let slot = find(&set, tag, at);
        if slot < SLOTS {
            charge::check_limit(limit, &set.word_at(slot), 0, at, cost)
        } else {
            check_new(limit, set, at, cost)
        }
    }

    /// Charges the source with this tag; `None` if it has no slot. A subprogram likewise.
    fn charge_in_set(
        limit: &Limit, set: MapSet, tag: u64, at: Instant, cost: u64
    ) -> Option<Outcome> {
        let slot = find(&set, tag, at);
        (slot < SLOTS).then(|| limit_words::charge_word(limit, set.word_at(slot), at, cost))
    }

    /// Charges a slot. A subprogram likewise.
    fn charge_slot(limit: &Limit, word: MapWord, at: Instant, cost: u64) -> Outcome {
        limit_words::charge_word(limit, word, at, cost)
    }
}

#[inline(always)]
fn tag<A: FamilyMaps>(address: &A) -> u64 {
    Mix::new([COMPACT_SEED_0.get(), COMPACT_SEED_1.get()]).tag(address.key())
}

/// The state of one source: a slot in a set of each limit.
pub struct CompactWords<'a, A> {
    address: &'a A,
    scope: u32,
    tag: u64,
}

impl<'a, A: FamilyMaps> CompactWords<'a, A> {
    /// The state of a source under the policy with this scope.
    #[inline(always)]
    pub fn new(address: &'a A, scope: u32) -> Self {
        Self {
            tag: tag(address),
            address,
            scope,
        }
    }

    /// The set in which the source has its slot of `limit`.
    #[inline(always)]
    fn set(&self, limit: &Limit) -> Option<MapSet> {
        set::<A>(limit, self.tag)
    }

    #[inline(always)]
    fn log(&self, index: usize) -> LogBits {
        LogBits::new(self.scope, index)
    }

    #[inline(always)]
    fn has_slot(&self, limit: &Limit) -> bool {
        self.set(limit)
            .is_some_and(|set| compact::find(&set, self.tag) < SLOTS)
    }

    /// The word of the source, which gets a slot if it has none; else why not.
    #[inline(always)]
    fn place(
        &self,
        set: MapSet,
        limit: &Limit,
        at: Instant,
        cost: u64,
    ) -> Result<MapWord, Outcome> {
        let slot = find(&set, self.tag, at);
        if slot < SLOTS {
            return Ok(set.word_at(slot));
        }
        claim::<A>(limit, set, self.tag, at, cost)
    }
}

const NO_STATE: Outcome = Outcome::refused(ratelimit_common::DropReason::NoState, 0);

impl<A: FamilyMaps> Words for CompactWords<'_, A> {
    type Ring = MapRing;

    /// The words are found by their limits.
    #[inline(always)]
    fn load(&self, _: usize) -> u64 {
        0
    }

    #[inline(always)]
    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        Err(0)
    }

    #[inline(always)]
    fn check(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        if limit.is_log() {
            return limit_words::check_log(limit, self.address, self.log(index), at);
        }
        let Some(set) = self.set(limit) else {
            return NO_STATE;
        };
        check_in_set(limit, set, self.tag, at, cost)
    }

    #[inline(always)]
    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        if limit.is_log() {
            return limit_words::charge_log(limit, self.address, self.log(index), at);
        }
        let Some(set) = self.set(limit) else {
            return NO_STATE;
        };
        if let Some(outcome) = charge_in_set(limit, set, self.tag, at, cost) {
            return outcome;
        }
        match claim::<A>(limit, set, self.tag, at, cost) {
            Ok(word) => charge_slot(limit, word, at, cost),
            Err(refused) => refused,
        }
    }

    #[inline(always)]
    fn has_own(&self, index: usize, limit: &Limit) -> bool {
        if limit.is_log() {
            return MapLog(&self.log(index).key(self.address)).ring(0).is_some();
        }
        self.has_slot(limit)
    }

    #[inline(always)]
    fn is_own(&self, policy: &Policy, arrival: &Arrival) -> bool {
        is_known(self.address, policy, Packet::of(arrival))
    }

    /// A source that has its slot costs no call.
    #[inline(always)]
    fn charge_fixed_window(&self, limit: &Limit, arrival: &Arrival) -> Outcome {
        let (at, cost) = (arrival.at, limit.cost_of_counted(arrival));
        let Some(set) = self.set(limit) else {
            return NO_STATE;
        };
        match self.place(set, limit, at, cost) {
            Ok(word) => charge_fixed_window(limit, word, arrival),
            Err(refused) => refused,
        }
    }

    #[inline(always)]
    fn charge_words(&self, policy: &Policy, arrival: &Arrival) -> Outcome {
        charge_slot_words::<A>(self.tag, policy, arrival)
    }
}

/// A reference to a source, and the scope of its policy.
#[derive(Clone, Copy)]
pub struct SlotKey<'a, A> {
    address: &'a A,
    scope: u32,
}

/// A slot for each source and limit. A source that has none inherits the words of others, so each
/// has words. No denial is cached.
pub struct SlotStore;

impl<A: FamilyMaps> Store<A> for SlotStore {
    type Key<'a> = SlotKey<'a, A>;
    type Words<'a> = CompactWords<'a, A>;
    type Denial<'a> = MapWord;

    #[inline(always)]
    fn key<'a>(&self, address: &'a A, scope: u32) -> SlotKey<'a, A> {
        SlotKey { address, scope }
    }

    #[inline(always)]
    fn words<'a>(&'a self, key: &'a SlotKey<'a, A>) -> Option<CompactWords<'a, A>> {
        Some(CompactWords::new(key.address, key.scope))
    }

    #[inline(always)]
    fn insert(&self, _: &SlotKey<'_, A>) -> Result<(), InsertError> {
        Ok(())
    }

    #[inline(always)]
    fn admits(&self, newcomer: Newcomer, arrival: &Arrival) -> bool {
        new_sources::take_new_source(newcomer, arrival.at, arrival.settings.generation())
    }

    #[inline(always)]
    fn is_budget_spent(&self, arrival: &Arrival) -> bool {
        new_sources::is_spent(arrival.at, arrival.settings.generation())
    }
}
