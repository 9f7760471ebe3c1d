//! The state of limits, in map values that all CPUs share.

use core::hint::cold_path;

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    Arrival, AtomicWords, Family, Instant, Limit, Policy, Record, SourceKey, bits,
    charge::{Outcome, Words},
    layout::LOG_TIMES,
    limit::LIMITS_MAX,
    source::LogKey,
};

use crate::{
    atomic,
    constant::Constant,
    first::first_of,
    interruption,
    limit_words::{self, LogBits},
    maps::FamilyMaps,
    maps::{EMPTY_LOG, INSERTED, LOGS, LogWords},
};

/// The words of a ring in the map that user space has made.
#[unsafe(no_mangle)]
static LOG_WORDS: Constant<u32> = Constant::new(LOG_TIMES + 1);

/// The words of a record of a source in the maps that user space has made: a power of two.
#[unsafe(no_mangle)]
static RECORD_WORDS: Constant<u32> = Constant::new(LIMITS_MAX as u32);

/// The words of a record, as many as the limits of the largest policy.
#[inline(always)]
pub fn record_words() -> usize {
    RECORD_WORDS.get() as usize
}

/// The words of a source, in an element of its map.
///
/// The element may be evicted and reused for another source while it is charged. That source is
/// then charged for one packet of another one. The kernel's LRU maps make that rare, and this
/// design limits it to a packet per CPU.
pub struct MapWords<'a, A: FamilyMaps> {
    record: *mut Record,
    key: &'a SourceKey<A>,
}

impl<'a, A: FamilyMaps> MapWords<'a, A> {
    /// The words in `record`, the live map value of `key`.
    #[inline(always)]
    pub const fn new(record: *mut Record, key: &'a SourceKey<A>) -> Self {
        Self { record, key }
    }

    #[inline(always)]
    fn first(&self) -> MapWord {
        MapWord(self.record.cast())
    }

    #[inline(always)]
    fn word(&self, index: usize) -> MapWord {
        // SAFETY: the record is a live map value, and the mask keeps the index within it.
        MapWord(unsafe { self.first().0.add(index & record_words().wrapping_sub(1)) })
    }

    #[inline(always)]
    pub fn load_first(&self) -> u64 {
        self.first().load(0)
    }

    #[inline(always)]
    fn log(&self, index: usize) -> LogBits {
        LogBits::new(self.key.scope(), index)
    }
}

impl<A: FamilyMaps> Words for MapWords<'_, A> {
    type Ring = MapRing;

    #[inline(always)]
    fn load(&self, index: usize) -> u64 {
        self.word(index).load(0)
    }

    #[inline(always)]
    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        self.word(index).compare_exchange(0, current, new)
    }

    #[inline(always)]
    fn has(&self, index: usize) -> bool {
        index < record_words()
    }

    #[inline(always)]
    fn check(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        if limit.is_log() {
            return limit_words::check_log(limit, self.key.as_address(), self.log(index), at);
        }
        limit_words::check_word(limit, self.word(index), at, cost)
    }

    #[inline(always)]
    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        if limit.is_log() {
            return limit_words::charge_log(limit, self.key.as_address(), self.log(index), at);
        }
        limit_words::charge_word(limit, self.word(index), at, cost)
    }

    #[inline(always)]
    fn is_own(&self, _: &Policy, _: &Arrival) -> bool {
        true
    }

    #[inline(always)]
    fn charge_fixed_window(&self, limit: &Limit, arrival: &Arrival) -> Outcome {
        charge_fixed_window(limit, self.first(), arrival)
    }

    #[inline(always)]
    fn charge_words(&self, policy: &Policy, arrival: &Arrival) -> Outcome {
        limit_words::charge_words(policy, self.record, arrival)
    }
}

/// The words of a policy without logs, in a map value.
pub struct RecordWords<const WORDS: usize>(pub *mut [u64; WORDS]);

impl<const WORDS: usize> RecordWords<WORDS> {
    #[inline(always)]
    pub fn word(&self, index: usize) -> MapWord {
        // SAFETY: the record is a live map value of this many words, a power of two.
        MapWord(unsafe { self.0.cast::<u64>().add(index & (WORDS - 1)) })
    }
}

impl<const WORDS: usize> Words for RecordWords<WORDS> {
    type Ring = MapRing;

    #[inline(always)]
    fn load(&self, index: usize) -> u64 {
        self.word(index).load(0)
    }

    #[inline(always)]
    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        self.word(index).compare_exchange(0, current, new)
    }

    #[inline(always)]
    fn has(&self, index: usize) -> bool {
        index < WORDS
    }

    #[inline(always)]
    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        limit_words::charge_word(limit, self.word(index), at, cost)
    }
}

/// The word of one limit, whatever its index.
#[derive(Clone, Copy)]
pub struct MapWord(pub *mut u64);

impl Words for MapWord {
    type Ring = MapRing;

    #[inline(always)]
    fn load(&self, _: usize) -> u64 {
        // SAFETY: an aligned word of a live map value.
        unsafe { atomic::load(self.0) }
    }

    #[inline(always)]
    fn compare_exchange(&self, _: usize, current: u64, new: u64) -> Result<(), u64> {
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(self.0, current, new) }
    }

    #[inline(always)]
    fn check(&self, limit: &Limit, _: usize, at: Instant, cost: u64) -> Outcome {
        limit_words::check_word(limit, *self, at, cost)
    }

    #[inline(always)]
    fn charge(&self, limit: &Limit, _: usize, at: Instant, cost: u64) -> Outcome {
        limit_words::charge_word(limit, *self, at, cost)
    }
}

/// Charges a limit that is known to be a fixed window. Only where another CPU was faster it takes a
/// call.
#[inline(always)]
pub fn charge_fixed_window(limit: &Limit, word: MapWord, arrival: &Arrival) -> Outcome {
    let (at, cost) = (arrival.at, limit.cost_of_counted(arrival));
    let step = |word| limit.fixed_window().step(word, at, cost);
    let found = word.load(0);
    let Ok(next) = step(found) else {
        return bits::rare(Outcome::LIMITED);
    };
    if word.compare_exchange(0, found, next).is_ok() {
        return Outcome::PASSED;
    }
    cold_path();
    limit_words::charge_fixed_window(limit, word, at, cost)
}

/// The log of one limit, whatever its index.
pub struct MapLog<'a>(pub &'a LogKey);

impl Words for MapLog<'_> {
    type Ring = MapRing;

    /// A limit with a log has no word.
    #[inline(always)]
    fn load(&self, _: usize) -> u64 {
        0
    }

    #[inline(always)]
    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        Err(0)
    }

    #[inline(always)]
    fn ring(&self, _: usize) -> Option<MapRing> {
        LOGS.get_ptr_mut(self.0).map(MapRing)
    }

    #[inline(always)]
    fn make_ring(&self, index: usize) -> Option<MapRing> {
        if let Some(ring) = self.ring(index) {
            return Some(ring);
        }
        // SAFETY: an array of such rings, which are never written.
        let empty = unsafe { &*first_of(&EMPTY_LOG)? };
        // If another CPU inserted it first, that one is found.
        let _ = LOGS.insert(self.0, empty, BPF_NOEXIST.into());
        self.ring(index)
    }
}

/// The ring of a sliding log, in an element of its map.
pub struct MapRing(*mut LogWords);

impl MapRing {
    /// The word at `index`; `None` past those that the map has.
    #[inline(always)]
    fn word(&self, index: u32) -> Option<*mut u64> {
        if index >= LOG_WORDS.get() {
            return None;
        }
        // SAFETY: the ring is a live map value of as many words.
        Some(unsafe { self.0.cast::<u64>().add(index as usize) })
    }
}

impl AtomicWords for MapRing {
    #[inline(always)]
    fn times(&self) -> u32 {
        LOG_WORDS.get().wrapping_sub(1)
    }

    #[inline(always)]
    fn load(&self, index: u32) -> u64 {
        // SAFETY: `word` answers an aligned word of a live map value.
        self.word(index)
            .map_or(0, |word| unsafe { atomic::load(word) })
    }

    #[inline(always)]
    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        let word = self.word(index).ok_or(0u64)?;
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(word, current, new) }
    }
}

#[inline(always)]
pub fn count_inserted(family: Family) {
    if let Some(inserted) = INSERTED.get_ptr_mut(family as u32) {
        // SAFETY: an aligned word of a live map value.
        unsafe { interruption::add([(inserted, 1)]) };
    }
}
