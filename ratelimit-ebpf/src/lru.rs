//! The `lru` store, in BPF hash maps that forget the sources that were not seen for longest.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    Arrival, Instant, SourceKey,
    cpu_state::CpuState,
    new_sources::Newcomer,
    store::{InsertError, Store},
};

use crate::{
    map_words::{MapWord, MapWords, count_inserted},
    maps,
    maps::FamilyMaps,
    new_sources, refused,
};

/// A record for each source, with the state of this CPU if it was already looked up.
pub struct Records(pub Option<*mut CpuState>);

impl<A: FamilyMaps> Store<A> for Records {
    type Key<'a> = SourceKey<A>;
    type Words<'a> = MapWords<'a, A>;
    type Denial<'a> = MapWord;

    #[inline(always)]
    fn key(&self, source: &A, scope: u32) -> SourceKey<A> {
        SourceKey::new(*source, scope)
    }

    #[inline(always)]
    fn words<'a>(&'a self, key: &'a SourceKey<A>) -> Option<MapWords<'a, A>> {
        let record = A::SOURCES.get_ptr_mut(key)?;
        Some(MapWords::new(record, key))
    }

    #[inline(always)]
    fn insert(&self, key: &SourceKey<A>) -> Result<(), InsertError> {
        const EEXIST: i32 = -17;
        let empty = maps::empty();
        match A::SOURCES.insert(key, empty, BPF_NOEXIST.into()) {
            Ok(()) => {
                count_inserted(A::FAMILY);
                Ok(())
            }
            Err(EEXIST) => Err(InsertError::Exists),
            Err(_) => Err(InsertError::Full),
        }
    }

    #[inline(always)]
    fn admits(&self, newcomer: Newcomer, arrival: &Arrival) -> bool {
        new_sources::take_new_source(newcomer, arrival.at, arrival.settings.generation())
    }

    #[inline(always)]
    fn is_budget_spent(&self, arrival: &Arrival) -> bool {
        new_sources::is_spent(arrival.at, arrival.settings.generation())
    }

    #[inline(always)]
    fn is_denied(
        &self,
        source: &A,
        scope: u32,
        at: Instant,
        refuses: impl FnOnce(MapWord) -> bool,
    ) -> bool {
        refused::is_refused_again(source, scope, at, self.0, refuses)
    }

    #[inline(always)]
    fn keep_denial(&self, key: &SourceKey<A>, words: &MapWords<'_, A>, at: Instant) {
        refused::keep_word(key, words.load_first(), at, self.0);
    }
}
