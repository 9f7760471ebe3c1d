//! The maps of one address family of the loaded program.

use std::hash::Hash;

use anyhow::{Context, Result};
use aya::{
    Ebpf, Pod,
    maps::{
        Array, HashMap, Map, MapData, MapError,
        lpm_trie::{Key, LpmTrie},
    },
};
use ratelimit_common::{
    Address, Detected, Ipv4, Ipv6, ListEntry, Record, SourceKey, Strikes, guard::Guard,
};

/// An address family as the kernel has it.
pub trait KernelFamily: Address + Pod + Hash {
    /// What the names of its maps end in.
    const SUFFIX: &'static str;
    /// The bits of an address.
    const BITS: u8;
    /// Prefixes of at least this length lie behind one bit of the guard.
    const GUARDED_BITS: u8;
}

impl KernelFamily for Ipv4 {
    const SUFFIX: &'static str = "V4";
    const BITS: u8 = 32;
    const GUARDED_BITS: u8 = 16;
}

impl KernelFamily for Ipv6 {
    const SUFFIX: &'static str = "V6";
    const BITS: u8 = 128;
    const GUARDED_BITS: u8 = 32;
}

/// The lists and sources of one address family.
pub struct FamilyMaps<A: KernelFamily>
where
    SourceKey<A>: Pod,
{
    guard: Guard,
    guards: Array<MapData, Guard>,
    addresses: HashMap<MapData, A, ListEntry>,
    prefixes: LpmTrie<MapData, A, ListEntry>,
    sources: HashMap<MapData, SourceKey<A>, Record>,
    strikes: HashMap<MapData, A, Strikes>,
    detected: HashMap<MapData, A, Detected>,
}

impl<A: KernelFamily> FamilyMaps<A>
where
    SourceKey<A>: Pod,
{
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let mut map = |name| take_map(ebpf, &format!("{name}_{}", A::SUFFIX));
        Ok(Self {
            guard: Guard::CLEAR,
            guards: map("GUARD")?.try_into()?,
            addresses: map("ADDRESSES")?.try_into()?,
            prefixes: map("PREFIXES")?.try_into()?,
            sources: map("SOURCES")?.try_into()?,
            strikes: map("STRIKES")?.try_into()?,
            detected: map("DETECTED")?.try_into()?,
        })
    }

    /// Sets the list entry of a prefix, and the bits of the guard that let the kernel look for it.
    pub fn set_list_entry(&mut self, address: A, length: u8, entry: ListEntry) -> Result<()> {
        if length >= A::GUARDED_BITS {
            self.guard.insert(address.guard_bit());
        } else {
            self.guard.insert_all();
        }
        self.guards.set(0, self.guard, 0)?;
        if length == A::BITS {
            self.addresses.insert(address, entry, 0)?;
        } else {
            self.prefixes
                .insert(&Key::new(length.into(), address), entry, 0)?;
        }
        Ok(())
    }

    /// The state of every source.
    pub fn records(&self) -> Result<Vec<(SourceKey<A>, Record)>> {
        Ok(self.sources.iter().collect::<Result<_, _>>()?)
    }

    /// The state of a source.
    pub fn record(&self, key: &SourceKey<A>) -> Result<Record> {
        Ok(self.sources.get(key, 0)?)
    }

    /// How often a source was refused, and when last.
    pub fn strikes_of(&self, source: &A) -> Result<Strikes> {
        Ok(self.strikes.get(source, 0)?)
    }

    /// Overwrites the state of a source.
    pub fn set_record(&mut self, key: &SourceKey<A>, record: &Record) -> Result<()> {
        Ok(self.sources.insert(key, record, 0)?)
    }

    /// Every source that was refused, and how often.
    pub fn strikes(&self) -> Result<Vec<(A, Strikes)>> {
        Ok(self.strikes.iter().collect::<Result<_, _>>()?)
    }

    /// Every source that a policy banned, until when and why.
    pub fn bans(&self) -> Result<Vec<(A, Detected)>> {
        Ok(self.detected.iter().collect::<Result<_, _>>()?)
    }

    /// Bans a source as a policy would, without a bit in the filter.
    pub fn ban(&mut self, source: &A, ban: &Detected) -> Result<()> {
        Ok(self.detected.insert(source, ban, 0)?)
    }

    /// Empties the lists, and forgets the sources.
    pub fn clear(&mut self) -> Result<()> {
        self.guard = Guard::CLEAR;
        self.guards.set(0, self.guard, 0)?;
        clear(&mut self.addresses)?;
        clear(&mut self.sources)?;
        clear(&mut self.strikes)?;
        clear(&mut self.detected)?;
        for key in self.prefixes.keys().collect::<Result<Vec<_>, _>>()? {
            self.prefixes.remove(&key)?;
        }
        Ok(())
    }
}

fn clear<K: Pod, V: Pod>(map: &mut HashMap<MapData, K, V>) -> Result<(), MapError> {
    for key in map.keys().collect::<Result<Vec<_>, _>>()? {
        map.remove(&key)?;
    }
    Ok(())
}

pub(crate) fn take_map(ebpf: &mut Ebpf, name: &str) -> Result<Map> {
    ebpf.take_map(name)
        .with_context(|| format!("the object has no map {name}"))
}
