//! The lists, with their prefix-length filters.

use std::{
    net::IpAddr,
    sync::atomic::{Ordering::SeqCst, fence},
};

use aya::Pod;
use ratelimit_common::{
    Ipv4, Ipv6,
    list::{PrefixKey, lookup_cache::STATE},
};
use ratelimit_core::{
    ip_family::{IpAddress, IpFamily},
    prefix::Prefix,
};

use super::{
    EntryByGeneration, Result,
    batch::{self, ScanPosition},
    count::Count,
    map_errors::unreadable,
    maps::{HashMap, Maps},
    prefix_filter::PrefixFilter,
};

/// The maps of the lists, IPv4 and IPv6.
pub(super) const LISTS: [&str; 2] = ["LISTS_V4", "LISTS_V6"];
/// The maps of their prefix-length filters.
const FILTERS: [&str; 2] = ["FILTER_V4", "FILTER_V6"];

/// The lists of both families.
pub struct ListTables {
    v4: FamilyLists<Ipv4>,
    v6: FamilyLists<Ipv6>,
}

impl ListTables {
    pub(super) fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            v4: FamilyLists::new(maps)?,
            v6: FamilyLists::new(maps)?,
        })
    }

    /// Inserts or replaces entries. If it fails, some of them were written.
    pub fn set(&mut self, entries: &[(Prefix, EntryByGeneration)]) -> Result<()> {
        self.v4.set(entries)?;
        self.v6.set(entries)
    }

    /// Removes entries; missing ones are no error. If it fails, some of them were removed.
    pub fn remove(&mut self, prefixes: &[Prefix]) -> Result<()> {
        self.v4.remove(prefixes)?;
        self.v6.remove(prefixes)
    }

    /// Returns a word of the prefix-length filter of a family.
    pub fn filter_word(&self, family: IpFamily, index: u32) -> u64 {
        self.prefix_filter(family).load(index)
    }

    /// Replaces a word of the prefix-length filter of a family.
    pub fn set_filter_word(&mut self, family: IpFamily, index: u32, word: u64) {
        self.prefix_filter(family).store(index, word);
    }

    const fn prefix_filter(&self, family: IpFamily) -> &PrefixFilter {
        match family {
            IpFamily::V4 => &self.v4.prefix_filter,
            IpFamily::V6 => &self.v6.prefix_filter,
        }
    }

    /// Releases memory that only serves speed. Called occasionally when there is nothing to do.
    pub fn release(&mut self) {
        self.v4.prefix_filter.release();
        self.v6.prefix_filter.release();
    }

    /// Returns the most entries of a family.
    pub fn capacity(&self, family: IpFamily) -> u32 {
        match family {
            IpFamily::V4 => self.v4.lists.map.size().capacity,
            IpFamily::V6 => self.v6.lists.map.size().capacity,
        }
    }

    /// Returns the entry of a prefix.
    pub fn get(&self, prefix: Prefix) -> Result<Option<EntryByGeneration>> {
        match prefix.address() {
            IpAddr::V4(_) => self.v4.get(prefix),
            IpAddr::V6(_) => self.v6.get(prefix),
        }
    }

    /// Returns all entries of both families.
    pub fn all(&self) -> Result<Vec<(Prefix, EntryByGeneration)>> {
        let mut entries = Vec::new();
        self.v4.add_to(&mut entries)?;
        self.v6.add_to(&mut entries)?;
        Ok(entries)
    }

    /// Visits about `count` entries of a family from a position, and returns where to continue: the
    /// beginning after the last one.
    pub fn for_some(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: impl FnMut(Prefix, EntryByGeneration),
    ) -> Result<ScanPosition> {
        match family {
            IpFamily::V4 => self.v4.for_some(place, count, visit),
            IpFamily::V6 => self.v6.for_some(place, count, visit),
        }
    }

    /// Returns the number of entries of a family without a scan. `None` if the kernel does not
    /// count them (before 6.4).
    pub fn count(&self, family: IpFamily) -> Option<u64> {
        match family {
            IpFamily::V4 => self.v4.count(),
            IpFamily::V6 => self.v6.count(),
        }
    }
}

struct FamilyLists<A>
where
    A: IpAddress + Pod,
    PrefixKey<A>: Pod,
{
    prefix_filter: PrefixFilter,
    lists: HashMap<PrefixKey<A>, EntryByGeneration>,
    entry_count: Option<Count>,
}

impl<A> FamilyLists<A>
where
    A: IpAddress + Pod,
    PrefixKey<A>: Pod,
{
    fn new(maps: &Maps) -> anyhow::Result<Self> {
        let family = A::IP_FAMILY as usize;
        let prefix_filter = PrefixFilter::new(maps, FILTERS[family], A::LEVELS.words())?;
        // Another daemon may have died while it changed a list.
        invalidate_cached(&prefix_filter);
        let lists = maps.hash_map::<PrefixKey<A>, EntryByGeneration>(LISTS[family])?;
        let samples = maps.samples(LISTS[family])?;
        Ok(Self {
            prefix_filter,
            entry_count: Count::learn(samples, &*lists.map),
            lists,
        })
    }

    /// Writes the entries of this family.
    fn set(&self, entries: &[(Prefix, EntryByGeneration)]) -> Result<()> {
        let own = entries
            .iter()
            .filter_map(|(prefix, entry)| Some((key(*prefix)?, *entry)));
        let (keys, values): (Vec<PrefixKey<A>>, Vec<EntryByGeneration>) = own.unzip();
        self.change(&keys, || self.lists.set_all(&keys, &values))
    }

    /// Removes the entries of this family.
    fn remove(&self, prefixes: &[Prefix]) -> Result<()> {
        let own = prefixes.iter().filter_map(|prefix| key(*prefix));
        let keys: Vec<PrefixKey<A>> = own.collect();
        self.change(&keys, || self.lists.remove_all(&keys))
    }

    /// Changes the entries of `keys`. During the change, no CPU caches what the lists say, and
    /// afterwards all cached results are invalid.
    fn change(&self, keys: &[PrefixKey<A>], change: impl FnOnce() -> Result<()>) -> Result<()> {
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
    fn get(&self, prefix: Prefix) -> Result<Option<EntryByGeneration>> {
        let Some(key) = key(prefix) else {
            return Ok(None);
        };
        self.lists.get(key)
    }

    fn add_to(&self, entries: &mut Vec<(Prefix, EntryByGeneration)>) -> Result<()> {
        // Avoids a scan of millions of buckets.
        if self.count() == Some(0) {
            return Ok(());
        }
        self.lists.for_each(|key, entry| {
            if let Some(prefix) = prefix(key) {
                entries.push((prefix, entry));
            }
        })
    }

    /// Visits some entries from a position.
    fn for_some(
        &self,
        place: &ScanPosition,
        count: usize,
        mut visit: impl FnMut(Prefix, EntryByGeneration),
    ) -> Result<ScanPosition> {
        let visit = |key: PrefixKey<A>, entry| {
            if let Some(prefix) = prefix(key) {
                visit(prefix, entry);
            }
        };
        batch::for_some(&*self.lists.map, place, count, visit).map_err(unreadable(self.lists.name))
    }

    /// Returns the kernel's count of entries, if it counts them.
    fn count(&self) -> Option<u64> {
        self.entry_count?.elements(&*self.lists.map)
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
