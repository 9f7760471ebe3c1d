//! The maps of one address family.

use std::{
    io,
    os::fd::AsFd,
    sync::atomic::{Ordering::SeqCst, fence},
};

use aya::Pod;
use ratelimit_common::{
    layout::LISTED_MAX,
    list::{PrefixKey, lookup_cache::STATE},
};
use ratelimit_core::{ip_family::IpAddress, prefix::Prefix};

use super::{
    DatapathError, EntryByGeneration, Result,
    batch::{self, ScanPosition},
    count::Count,
    map_errors::{unreadable, unwritable},
    maps::{Keyed, Maps},
    prefix_filter_map::PrefixFilter,
};

/// The maps of the lists, IPv4 and IPv6.
pub(super) const LISTS: [&str; 2] = ["LISTS_V4", "LISTS_V6"];
/// The maps of their prefix-length filters.
const FILTERS: [&str; 2] = ["FILTER_V4", "FILTER_V6"];

pub(super) struct FamilyMaps<A>
where
    A: IpAddress + Pod,
    PrefixKey<A>: Pod,
{
    pub prefix_filter: PrefixFilter,
    lists: Keyed<PrefixKey<A>, EntryByGeneration>,
    lists_count: Option<Count>,
}

impl<A> FamilyMaps<A>
where
    A: IpAddress + Pod,
    PrefixKey<A>: Pod,
{
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        let family = A::IP_FAMILY as usize;
        let prefix_filter = PrefixFilter::new(maps, FILTERS[family], A::LEVELS.words())?;
        // Another daemon may have died while it changed a list.
        invalidate_cached(&prefix_filter);
        let samples = maps.samples(LISTS[family])?;
        Ok(Self {
            prefix_filter,
            lists: maps.keyed(LISTS[family])?,
            lists_count: Count::learn::<PrefixKey<A>, EntryByGeneration>(samples, LISTED_MAX),
        })
    }

    /// Writes the entries of this family.
    pub fn set_entries(&self, entries: &[(Prefix, EntryByGeneration)]) -> Result<()> {
        let own = entries
            .iter()
            .filter_map(|(prefix, entry)| Some((key(*prefix)?, *entry)));
        let (keys, values): (Vec<PrefixKey<A>>, Vec<EntryByGeneration>) = own.unzip();
        let answer = self.change(&keys, || {
            batch::update(self.lists.descriptor.as_fd(), &keys, &values)
        });
        answer.map_err(|source| match source.raw_os_error() {
            Some(libc::E2BIG) => DatapathError::Full {
                map: self.lists.name,
                capacity: LISTED_MAX,
            },
            _ => unwritable(self.lists.name)(source),
        })
    }

    /// Removes the entries of this family.
    pub fn remove_entries(&self, prefixes: &[Prefix]) -> Result<()> {
        let own = prefixes.iter().filter_map(|prefix| key(*prefix));
        let keys: Vec<PrefixKey<A>> = own.collect();
        let answer = self.change(&keys, || {
            batch::delete(self.lists.descriptor.as_fd(), &keys)
        });
        answer.map_err(unwritable(self.lists.name))
    }

    /// Changes the entries of `keys`. During the change, no CPU caches what the lists say, and
    /// afterwards all cached results are invalid.
    fn change(
        &self,
        keys: &[PrefixKey<A>],
        change: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.prefix_filter
            .store(STATE, self.prefix_filter.load(STATE) | 1);
        fence(SeqCst);
        let answer = change();
        fence(SeqCst);
        invalidate_cached(&self.prefix_filter);
        answer
    }

    /// Returns the entry of a prefix. `None` if it is of the other family.
    pub fn entry(&self, prefix: Prefix) -> Result<Option<EntryByGeneration>> {
        let Some(key) = key(prefix) else {
            return Ok(None);
        };
        self.lists.get(key)
    }

    pub fn for_each_entry(&self, mut visit: impl FnMut(Prefix, EntryByGeneration)) -> Result<()> {
        // Avoids a scan of millions of buckets.
        if self.count_entries() == Some(0) {
            return Ok(());
        }
        self.lists.for_each(|key, entry| {
            if let Some(prefix) = prefix(key) {
                visit(prefix, entry);
            }
        })
    }

    /// Visits some entries from a position.
    pub fn for_some_entries(
        &self,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(Prefix, EntryByGeneration),
    ) -> Result<ScanPosition> {
        batch::for_some(
            self.lists.descriptor.as_fd(),
            place,
            count,
            |key: PrefixKey<A>, entry| {
                if let Some(prefix) = prefix(key) {
                    visit(prefix, entry);
                }
            },
        )
        .map_err(unreadable(self.lists.name))
    }

    /// Returns the kernel's count of entries, if it counts them.
    pub fn count_entries(&self) -> Option<u64> {
        self.lists_count?.elements(self.lists.descriptor.as_fd())
    }
}

/// Enters a new state, for which no CPU has cached results. Its number is even.
fn invalidate_cached(prefix_filter: &PrefixFilter) {
    let odd = prefix_filter.load(STATE) | 1;
    prefix_filter.store(STATE, odd.wrapping_add(1));
}

/// Returns the key of a prefix of this family.
fn key<A: IpAddress>(prefix: Prefix) -> Option<PrefixKey<A>> {
    Some(PrefixKey::new(A::of(prefix.address())?, prefix.len()))
}

/// Returns the prefix of a key, if it is valid.
fn prefix<A: IpAddress>(key: PrefixKey<A>) -> Option<Prefix> {
    Prefix::around(key.address().to_std(), key.length()?)
}
