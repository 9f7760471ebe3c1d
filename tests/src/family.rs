//! The maps of one address family of the loaded program.

use std::{hash::Hash, os::fd::AsFd, sync::atomic::Ordering::Relaxed};

use anyhow::{Context, Result};
use aya::{
    Ebpf, Pod,
    maps::{Array, HashMap, Map, MapData, MapError},
};
use ratelimit_common::{
    Address, Ipv4, Ipv6, ListEntry, PolicyBan, Record, Refusals, SourceKey,
    challenge::Verified,
    compact::Set,
    generation::ByGeneration,
    list::{PrefixKey, lookup_cache::STATE},
    prefix_filter::WIDTHS,
    refused::Refused,
};
pub(crate) use ratelimit_core::memory_tables::REFUSED_SETS;
use ratelimit_daemon::{
    cpus,
    datapath::{Mapped, refusals_in, refused_in, words_of_set},
};
use zerocopy::FromBytes;

/// An address family as the kernel has it.
pub trait KernelFamily: Address + Pod + Hash + FromBytes {
    /// The suffix of the names of its maps.
    const SUFFIX: &'static str;
}

impl KernelFamily for Ipv4 {
    const SUFFIX: &'static str = "V4";
}

impl KernelFamily for Ipv6 {
    const SUFFIX: &'static str = "V6";
}

/// The words of a prefix-length filter, as a power of two: some that few prefixes share.
const FILTER_WIDTH: u8 = 5;

/// Returns the number of sets of all CPUs.
pub(crate) fn refused_sets() -> Result<u32> {
    Ok(REFUSED_SETS * cpus::possible()?)
}

/// The lists and sources of one address family.
pub struct FamilyMaps<A: KernelFamily>
where
    PrefixKey<A>: Pod,
    SourceKey<A>: Pod,
    Refused<A>: Pod,
{
    prefix_filter: Mapped,
    lists: HashMap<MapData, PrefixKey<A>, ByGeneration<ListEntry>>,
    /// `None` where records have another size.
    sources: Option<HashMap<MapData, SourceKey<A>, Record>>,
    compact: Array<MapData, Set>,
    compact_words: Mapped,
    refused: Mapped,
    strikes: HashMap<MapData, A, u64>,
    policy_bans: HashMap<MapData, A, PolicyBan>,
    verified: HashMap<MapData, A, u64>,
}

impl<A: KernelFamily> FamilyMaps<A>
where
    PrefixKey<A>: Pod,
    SourceKey<A>: Pod,
    Refused<A>: Pod,
{
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let mut map = |name| take_map(ebpf, &format!("{name}_{}", A::SUFFIX));
        let compact = map("COMPACT")?;
        let words_each = u32::try_from(size_of::<Set>() / size_of::<u64>())?;
        let compact_words = mapped(&compact, sets(&compact)? * words_each)?;
        Ok(Self {
            prefix_filter: mapped(&map("FILTER")?, A::LEVELS.words())?,
            lists: map("LISTS")?.try_into()?,
            sources: map("SOURCES")?.try_into().ok(),
            compact: compact.try_into()?,
            compact_words,
            refused: mapped(
                &map("REFUSED")?,
                refused_sets()? * u32::try_from(words_of_set::<A>())?,
            )?,
            strikes: map("STRIKES")?.try_into()?,
            policy_bans: map("POLICY_BANS")?.try_into()?,
            verified: map("VERIFIED")?.try_into()?,
        })
    }

    /// Writes the expiry of a source's verification, or removes the source.
    pub fn set_verified(&mut self, source: A, verified: Option<Verified>) -> Result<()> {
        match verified {
            Some(verified) => self.verified.insert(source, verified.to_bits(), 0)?,
            None => self.verified.remove(&source)?,
        }
        Ok(())
    }

    /// Sets the list entry of a prefix, and the bits of the prefix-length filter that let the
    /// kernel look for it.
    pub fn set_list_entry(&mut self, address: A, length: u8, entry: ListEntry) -> Result<()> {
        self.set_prefix_filter(address, length);
        self.set_list_entry_unnoticed(address, length, entry)?;
        self.set_generation(self.generation().wrapping_add(2));
        Ok(())
    }

    /// Sets the bits of the prefix-length filter that let the kernel look for a prefix.
    fn set_prefix_filter(&mut self, address: A, length: u8) {
        let widths = A::LEVELS.all_of_width(FILTER_WIDTH);
        self.prefix_filter.store(WIDTHS, widths.to_word());
        A::LEVELS.marks(address, length, widths, |index, mark| {
            self.prefix_filter
                .store(index, self.prefix_filter.load(index) | mark);
        });
    }

    /// Sets the list entry of a prefix that has its bits, and lets the CPUs cache what the lists
    /// said before.
    pub fn set_list_entry_unnoticed(
        &mut self,
        address: A,
        length: u8,
        entry: ListEntry,
    ) -> Result<()> {
        let key = PrefixKey::new(address, length);
        Ok(self.lists.insert(key, ByGeneration::both(entry), 0)?)
    }

    /// The generation of the lists.
    pub fn generation(&self) -> u64 {
        self.prefix_filter.load(STATE)
    }

    /// Tells the CPUs that a list changes, or that it has.
    pub fn set_generation(&self, generation: u64) {
        self.prefix_filter.store(STATE, generation);
    }

    fn whole_sources(&self) -> Result<&HashMap<MapData, SourceKey<A>, Record>> {
        let sources = self.sources.as_ref();
        sources.context("the records have another size")
    }

    /// The state of every source.
    pub fn records(&self) -> Result<Vec<(SourceKey<A>, Record)>> {
        Ok(self.whole_sources()?.iter().collect::<Result<_, _>>()?)
    }

    /// The sets of the `compact` table.
    pub fn sets(&self) -> Result<Vec<Set>> {
        Ok(self.compact.iter().collect::<Result<_, _>>()?)
    }

    /// The state of a source.
    pub fn record(&self, key: &SourceKey<A>) -> Result<Record> {
        Ok(self.whole_sources()?.get(key, 0)?)
    }

    /// The refusals of a source: their number and the time of the last.
    pub fn refusals_of(&self, source: &A) -> Result<Refusals> {
        let all = self.refusals()?.into_iter();
        let own = all.into_iter().find(|(refused, _)| refused == source);
        own.map(|(_, refusals)| refusals)
            .context("it was never refused")
    }

    /// Overwrites the state of a source.
    pub fn set_record(&mut self, key: &SourceKey<A>, record: &Record) -> Result<()> {
        let sources = self.sources.as_mut();
        let sources = sources.context("the records have another size")?;
        Ok(sources.insert(key, record, 0)?)
    }

    /// Every source that was refused, and how often.
    pub fn refusals(&self) -> Result<Vec<(A, Refusals)>> {
        Ok(refusals_in(&self.refused).into_iter().collect())
    }

    /// Returns the refused sources known to the first CPU, with the cached denials.
    pub fn refused_by_first_cpu(&self) -> Vec<(A, Refused<A>)> {
        let words = REFUSED_SETS as usize * words_of_set::<A>();
        refused_in(&self.refused.words()[..words]).collect()
    }

    /// Every source under a policy that bans, and its strikes, as a word of the rule.
    pub fn strikes(&self) -> Result<Vec<(A, u64)>> {
        Ok(self.strikes.iter().collect::<Result<_, _>>()?)
    }

    /// The sources that policies banned, with the expiry and the cause of the ban.
    pub fn bans(&self) -> Result<Vec<(A, PolicyBan)>> {
        Ok(self.policy_bans.iter().collect::<Result<_, _>>()?)
    }

    /// Bans a source as a policy would, without a bit in the filter.
    pub fn ban(&mut self, source: &A, ban: &PolicyBan) -> Result<()> {
        Ok(self.policy_bans.insert(source, ban, 0)?)
    }

    /// Empties the lists, and forgets the sources.
    pub fn clear(&mut self) -> Result<()> {
        let generation = self.generation();
        for word in self.prefix_filter.words() {
            word.store(0, Relaxed);
        }
        for word in self.compact_words.words() {
            word.store(0, Relaxed);
        }
        clear(&mut self.lists)?;
        self.set_generation(generation.wrapping_add(2));
        if let Some(sources) = &mut self.sources {
            clear(sources)?;
        }
        clear(&mut self.policy_bans)?;
        clear(&mut self.verified)?;
        for word in self.refused.words() {
            word.store(0, Relaxed);
        }
        Ok(clear(&mut self.strikes)?)
    }
}

fn clear<K: Pod, V: Pod>(map: &mut HashMap<MapData, K, V>) -> Result<(), MapError> {
    for key in map.keys().collect::<Result<Vec<_>, _>>()? {
        map.remove(&key)?;
    }
    Ok(())
}

/// The number of sets of a `compact` table.
fn sets(compact: &Map) -> Result<u32> {
    let Map::Array(data) = compact else {
        anyhow::bail!("the table is no array");
    };
    Ok(data.info()?.max_entries())
}

/// Maps an array.
pub(crate) fn mapped(map: &Map, words: u32) -> Result<Mapped> {
    let Map::Array(data) = map else {
        anyhow::bail!("the map is no array");
    };
    Ok(Mapped::new(data.fd().as_fd(), words as usize)?)
}

pub(crate) fn take_map(ebpf: &mut Ebpf, name: &str) -> Result<Map> {
    ebpf.take_map(name)
        .with_context(|| format!("the object has no map {name}"))
}
