//! The `compact` store, in BPF arrays that user space can map into its memory.

use core::marker::PhantomData;

use ratelimit_common::{
    Arrival, DropReason, Instant, Limit, Policy, SourceKey, Tables,
    algorithm::FixedWindow,
    charge::{self, Outcome, Places, Words},
    compact::{self, Mix, Place, SLOTS, Set, Slots, Table},
    layout::store,
    new_sources,
    source::LogKey,
};

use crate::{
    atomic,
    constant::Constant,
    state::{MapLog, MapRing, MapWord, charge_fixed_window},
    steps::MapSteps,
    subprograms,
    tables::{FamilyCode, KernelTables, count_inserted},
};

/// One of [`store`]'s constants. The verifier knows its value, and removes the code of the other.
#[unsafe(no_mangle)]
static STORE: Constant<u32> = Constant::new(store::LRU);

/// The seeds of the tags.
#[unsafe(no_mangle)]
static COMPACT_SEED_0: Constant<u64> = Constant::new(0);
#[unsafe(no_mangle)]
static COMPACT_SEED_1: Constant<u64> = Constant::new(0);

/// Whether this is where the state of sources is.
#[inline(always)]
pub fn is_used() -> bool {
    STORE.get() == store::COMPACT
}

/// A set in an element of a table.
#[derive(Clone, Copy)]
pub struct MapSet(pub *mut Set);

impl MapSet {
    #[inline(always)]
    fn slot(self, slot: usize) -> *mut compact::Slot {
        // SAFETY: the set is a live map value, and the mask keeps the index within it.
        unsafe { self.0.cast::<compact::Slot>().add(slot & (SLOTS - 1)) }
    }
}

impl MapSet {
    /// Where the word of a slot lies.
    #[inline(always)]
    fn word_at(self, slot: usize) -> *mut u64 {
        // SAFETY: as above.
        unsafe { &raw mut (*self.slot(slot)).word }
    }
}

impl Slots for MapSet {
    #[inline(always)]
    fn tag(&self, slot: usize) -> u64 {
        // SAFETY: an aligned word of a live map value.
        unsafe { atomic::load(&raw const (*self.slot(slot)).tag) }
    }

    #[inline(always)]
    fn exchange_tag(&self, slot: usize, current: u64, new: u64) -> Result<(), u64> {
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(&raw mut (*self.slot(slot)).tag, current, new) }
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> u64 {
        // SAFETY: as above.
        unsafe { atomic::load(&raw const (*self.slot(slot)).word) }
    }

    #[inline(always)]
    fn exchange_word(&self, slot: usize, current: u64, new: u64) -> Result<(), u64> {
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(&raw mut (*self.slot(slot)).word, current, new) }
    }
}

/// The table of a family.
pub struct MapTable<A>(PhantomData<A>);

impl<A: FamilyCode> Table for MapTable<A> {
    type Set = MapSet;

    #[inline(always)]
    fn set(&self, limit: &Limit, tag: u64) -> Option<MapSet> {
        A::COMPACT
            .get_ptr_mut(limit.region().set_of(tag))
            .map(MapSet)
    }

    #[inline(always)]
    fn count_new(&self) {
        count_inserted(A::FAMILY);
    }

    #[inline(always)]
    fn check_new(&self, set: &MapSet, limit: &Limit, at: Instant, cost: u64) -> Outcome {
        subprograms::check_new(limit, *set, at, cost)
    }

    #[inline(always)]
    fn place_new(&self, set: &MapSet, tag: u64, limit: &Limit, at: Instant, cost: u64) -> Place {
        subprograms::place_new(limit, *set, tag, at, cost)
    }

    #[inline(always)]
    fn charge(&self, set: &MapSet, slot: usize, limit: &Limit, at: Instant, cost: u64) -> Outcome {
        subprograms::charge_word(limit, set.word_at(slot), at, cost)
    }
}

/// Charges a packet that meets no wider limits.
#[inline(always)]
pub fn charge_source<A: FamilyCode>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &KernelTables,
) -> Outcome {
    let has_budget = tables.settings().has_new_sources();
    let Some(policy) = policy else {
        return Outcome::UNCOUNTED;
    };
    if let Some((window, limit)) = policy.only_fixed_window()
        && let Some(cost) = limit.cost(arrival)
    {
        let words = CompactWords::new(source, policy.scope());
        if !has_budget || words.has_slot(limit) {
            return words
                .charge_fixed_window(window, limit, arrival.at, cost)
                .observed_if(policy.observe());
        }
    } else if !policy.has_log() && (!has_budget || source.is_known_compact(policy, arrival)) {
        return source.charge_compact_words(Some(policy), arrival);
    }
    if has_budget {
        source.charge_new(Some(policy), arrival)
    } else {
        source.charge(Some(policy), arrival)
    }
}

/// Whether a source that has no state cannot get any, because the budget for new sources is spent.
#[inline(always)]
fn is_beyond<A: FamilyCode>(address: &A, policy: &Policy, arrival: &Arrival) -> bool {
    let tables = KernelTables::of(arrival);
    new_sources::is_needed(policy, &tables)
        && !address.is_known_compact(policy, arrival)
        && new_sources::is_beyond(address, policy, arrival.at, &tables)
}

/// Whether a source has state for the first limit of a policy that counts the packet.
#[inline(always)]
pub fn is_known<A: FamilyCode>(address: &A, policy: &Policy, arrival: &Arrival) -> bool {
    let Some((index, limit)) = policy.first_counting(arrival) else {
        return true;
    };
    if limit.is_log() {
        let key = SourceKey::new(*address, policy.scope());
        let log = LogKey::new(&key).of_limit(index as u32);
        return MapLog(&log).ring(0).is_some();
    }
    CompactWords::new(address, policy.scope()).has_slot(limit)
}

/// Charges a packet of `address` to the limits of a policy without logs.
#[inline(always)]
pub fn charge_words<A: FamilyCode>(
    address: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    let Some(policy) = policy else {
        return Outcome::UNCOUNTED;
    };
    let words = CompactWords::new(address, policy.scope());
    if let Some(outcome) = charge::charge_two(policy, &words, arrival) {
        return outcome.observed_if(policy.observe());
    }
    if !policy.counts(arrival) {
        return Outcome::UNCOUNTED;
    }
    let Some(mut steps) = MapSteps::of_this_cpu() else {
        return Outcome::refused(DropReason::Contended, 0);
    };
    let table = MapTable(PhantomData::<A>);
    compact::charge_all(policy, &table, words.tag, &mut steps, arrival)
        .observed_if(policy.observe())
}

#[inline(always)]
fn tag<A: FamilyCode>(address: &A) -> u64 {
    Mix::new([COMPACT_SEED_0.get(), COMPACT_SEED_1.get()]).tag(address.key())
}

/// The state of one source: a slot in a set of each limit.
pub struct CompactWords<'a, A: FamilyCode> {
    address: &'a A,
    scope: u32,
    tag: u64,
}

impl<'a, A: FamilyCode> CompactWords<'a, A> {
    /// The state of a source under the policy with this scope.
    #[inline(always)]
    pub fn new(address: &'a A, scope: u32) -> Self {
        Self {
            address,
            scope,
            tag: tag(address),
        }
    }

    /// The set in which the source has its slot of `limit`.
    #[inline(always)]
    fn set(&self, limit: &Limit) -> Option<MapSet> {
        MapTable(PhantomData::<A>).set(limit, self.tag)
    }

    /// Whether the source has its slot of `limit`.
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
    ) -> Result<*mut u64, Outcome> {
        let slot = compact::find_at_once(&set, self.tag);
        if slot < SLOTS {
            return Ok(set.word_at(slot));
        }
        let place = subprograms::place_new(limit, set, self.tag, at, cost);
        if place.is_new {
            count_inserted(A::FAMILY);
        }
        if place.outcome.is_refused() {
            return Err(place.outcome);
        }
        Ok(set.word_at(place.slot))
    }

    /// Charges a packet to the only limit of a policy, a fixed window. A source that has its slot costs no call.
    #[inline(always)]
    pub fn charge_fixed_window(
        &self,
        window: FixedWindow,
        limit: &Limit,
        at: Instant,
        cost: u64,
    ) -> Outcome {
        let Some(set) = self.set(limit) else {
            return NO_STATE;
        };
        match self.place(set, limit, at, cost) {
            Ok(word) => charge_fixed_window(window, limit, word, at, cost),
            Err(refused) => refused,
        }
    }
}

impl<A: FamilyCode> Places for CompactWords<'_, A> {
    type Place = MapWord;

    #[inline(always)]
    fn find(&self, _: usize, limit: &Limit) -> Option<MapWord> {
        let set = self.set(limit)?;
        let slot = compact::find_at_once(&set, self.tag);
        (slot < SLOTS).then(|| MapWord(set.word_at(slot)))
    }
}

const NO_STATE: Outcome = Outcome::refused(ratelimit_common::DropReason::NoState, 0);

impl<A: FamilyCode> Words for CompactWords<'_, A> {
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
            return self.address.check_log(self.scope, limit, index, at);
        }
        let Some(set) = self.set(limit) else {
            return NO_STATE;
        };
        let slot = compact::find(&set, self.tag);
        if slot < SLOTS {
            return subprograms::check_word(limit, set.word_at(slot), at, cost);
        }
        subprograms::check_new(limit, set, at, cost)
    }

    #[inline(always)]
    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        if limit.is_log() {
            return self.address.charge_log(self.scope, limit, index, at);
        }
        let Some(set) = self.set(limit) else {
            return NO_STATE;
        };
        match self.place(set, limit, at, cost) {
            Ok(word) => subprograms::charge_word(limit, word, at, cost),
            Err(refused) => refused,
        }
    }
}

/// Whether all limits of `policy` that count a packet of `address` have room.
#[inline(always)]
pub fn check<A: FamilyCode>(address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let is_needed = new_sources::is_needed(policy, &KernelTables::of(arrival));
    if is_needed && !address.is_known_compact(policy, arrival) {
        return Outcome::PASSED;
    }
    let words = CompactWords::new(address, policy.scope());
    charge::check(policy, &words, arrival).observed_if(policy.observe())
}

/// Charges a packet of `address` to the limits of `policy` that count it.
#[inline(always)]
pub fn charge<A: FamilyCode>(address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    if is_beyond(address, policy, arrival) {
        return new_sources::BEYOND.observed_if(policy.observe());
    }
    let words = CompactWords::new(address, policy.scope());
    charge::charge(policy, &words, arrival).observed_if(policy.observe())
}
