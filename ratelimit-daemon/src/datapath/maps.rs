//! Opens maps by name, from the descriptors of the loader.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use anyhow::{Context, anyhow};
use aya::{
    Pod,
    maps::{Array, HashMap, Map, MapData, MapError},
};
use ratelimit_common::{Address as _, Ipv4, Ipv6, compact::SLOTS, refused::WAYS};
use ratelimit_core::{api::MapStatus, ip_family::IpAddress as _};

use super::{
    Result, batch, count,
    map_errors::{failed, present, unreadable},
};
use crate::loader::{self, REFUSED_MAPS, TABLES};

/// Maps by name, to be opened with a type.
pub struct Maps(BTreeMap<String, OwnedFd>);

impl Maps {
    /// Takes the descriptors.
    pub const fn new(descriptors: BTreeMap<String, OwnedFd>) -> Self {
        Self(descriptors)
    }

    /// Opens a map with a duplicated descriptor, as it may have other owners.
    pub fn open<T: TryFrom<Map, Error = MapError>>(&self, name: &str) -> anyhow::Result<T> {
        let map = MapData::from_fd(self.descriptor(name)?).and_then(Map::from_map_data);
        map.and_then(T::try_from)
            .with_context(|| format!("opening the map {name}"))
    }

    /// Opens an array.
    pub fn elements<T: Pod>(&self, name: &'static str) -> anyhow::Result<Elements<T>> {
        Ok(Elements {
            name,
            array: self.open(name)?,
            descriptor: self.descriptor(name)?,
        })
    }

    /// Opens a hash map.
    pub fn keyed<K: Pod, V: Pod>(&self, name: &'static str) -> anyhow::Result<Keyed<K, V>> {
        Ok(Keyed {
            name,
            map: self.open(name)?,
            descriptor: self.descriptor(name)?,
        })
    }

    /// Opens the hash maps of both families.
    pub fn by_source<V: Pod>(&self, [v4, v6]: [&'static str; 2]) -> anyhow::Result<BySource<V>> {
        Ok(BySource {
            v4: self.keyed(v4)?,
            v6: self.keyed(v6)?,
        })
    }

    /// Duplicates the descriptor of a map.
    pub fn descriptor(&self, name: &str) -> anyhow::Result<OwnedFd> {
        let descriptor = self.borrow(name)?.try_clone_to_owned();
        descriptor.with_context(|| format!("duplicating the descriptor of the map {name}"))
    }

    /// Returns the descriptor of a map.
    pub fn borrow(&self, name: &str) -> anyhow::Result<BorrowedFd<'_>> {
        let map = self.0.get(name);
        map.map(AsFd::as_fd)
            .ok_or_else(|| anyhow!("the loader gave no map {name}"))
    }

    /// Returns the maps that another one replaces, opened with `open`.
    pub fn replaced<T>(
        &self,
        name: &str,
        open: impl Fn(OwnedFd) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let names = loader::replaced_names(name);
        let given = names.iter().filter(|name| self.0.contains_key(*name));
        given.map(|name| open(self.descriptor(name)?)).collect()
    }

    /// Returns two empty maps of the same kind, with room for one element and two.
    pub fn samples(&self, name: &str) -> anyhow::Result<[OwnedFd; 2]> {
        let [one, two] = loader::samples(name);
        Ok([self.descriptor(&one)?, self.descriptor(&two)?])
    }

    /// Returns the sizes of the maps.
    pub fn statuses(&self) -> anyhow::Result<Vec<MapStatus>> {
        let tables = self.0.iter().filter(|(name, _)| loader::is_shared(name));
        tables
            .map(|(name, map)| status(name, map.as_fd()))
            .collect()
    }
}

/// An array with its name, for errors.
pub struct Elements<T: Pod> {
    pub name: &'static str,
    array: Array<MapData, T>,
    pub descriptor: OwnedFd,
}

impl<T: Pod> Elements<T> {
    pub fn get(&self, index: u32) -> Result<T> {
        let answer = self.array.get(&index, 0);
        answer.map_err(failed("reading", self.name, self.array.len()))
    }

    pub fn set(&mut self, index: u32, value: T) -> Result<()> {
        let answer = self.array.set(index, value, 0);
        answer.map_err(failed("writing", self.name, self.array.len()))
    }

    /// Returns the elements in a range of indices.
    pub fn some(&self, indices: Range<u32>) -> Result<Vec<T>> {
        let mut elements = Vec::with_capacity(indices.len());
        let visit = |_, element| elements.push(element);
        batch::for_range(self.descriptor.as_fd(), indices, visit).map_err(unreadable(self.name))?;
        Ok(elements)
    }

    pub fn len(&self) -> u32 {
        self.array.len()
    }
}

/// A hash map with its name, for errors.
pub struct Keyed<K: Pod, V: Pod> {
    pub name: &'static str,
    pub map: HashMap<MapData, K, V>,
    pub descriptor: OwnedFd,
}

impl<K: Pod, V: Pod> Keyed<K, V> {
    pub fn get(&self, key: K) -> Result<Option<V>> {
        present(self.map.get(&key, 0)).map_err(failed("reading", self.name, 0))
    }

    pub fn for_each(&self, visit: impl FnMut(K, V)) -> Result<()> {
        batch::for_each(self.descriptor.as_fd(), visit).map_err(unreadable(self.name))
    }

    /// Returns its name and number of entries. This scans the map.
    pub fn count(&self) -> Result<(&'static str, u64)> {
        let mut entries = 0;
        self.for_each(|_, _| entries += 1)?;
        Ok((self.name, entries))
    }

    pub fn all(&self) -> Result<Vec<(K, V)>> {
        let mut all = Vec::new();
        self.for_each(|key, value| all.push((key, value)))?;
        Ok(all)
    }
}

/// The hash maps of both families with sources as keys.
pub struct BySource<V: Pod> {
    pub v4: Keyed<Ipv4, V>,
    pub v6: Keyed<Ipv6, V>,
}

impl<V: Pod> BySource<V> {
    pub fn get(&self, source: IpAddr) -> Result<Option<V>> {
        match source {
            IpAddr::V4(source) => self.v4.get(source.into()),
            IpAddr::V6(source) => self.v6.get(source.into()),
        }
    }

    pub fn for_each(&self, mut visit: impl FnMut(IpAddr, V)) -> Result<()> {
        self.v4
            .for_each(|source, value| visit(source.to_std(), value))?;
        self.v6
            .for_each(|source, value| visit(source.to_std(), value))
    }
}

fn status(name: &str, map: BorrowedFd<'_>) -> anyhow::Result<MapStatus> {
    let asking = || format!("asking for the size of {name}");
    let data = map.try_clone_to_owned().with_context(asking)?;
    let info = MapData::from_fd(data).and_then(|data| data.info());
    let of_element = match name {
        _ if TABLES.contains(&name) => u32::try_from(SLOTS)?,
        _ if REFUSED_MAPS.contains(&name) => u32::try_from(WAYS)?,
        "FILTER_V4" => Ipv4::LEVELS.words(),
        _ => 1,
    };
    Ok(MapStatus {
        name: name.to_owned(),
        entries: None,
        capacity: info.with_context(asking)?.max_entries() * of_element,
        memory_bytes: count::memory_bytes(map).unwrap_or_default(),
    })
}
