//! The maps as they are opened: by name, from the descriptors that the loader gave.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use anyhow::{Context, anyhow};
use aya::maps::{Map, MapData, MapError};
use ratelimit_common::{compact::SLOTS, refused::WAYS};
use ratelimit_core::api::MapStatus;

use super::count;
use crate::loader::{self, REFUSED_MAPS, TABLES};

/// The maps by their names, to be opened by name and type.
pub struct Maps(BTreeMap<String, OwnedFd>);

impl Maps {
    /// Those of these descriptors.
    pub const fn new(descriptors: BTreeMap<String, OwnedFd>) -> Self {
        Self(descriptors)
    }

    /// A map, by a descriptor of its own: it may have other owners.
    pub fn open<T: TryFrom<Map, Error = MapError>>(&self, name: &str) -> anyhow::Result<T> {
        let map = MapData::from_fd(self.descriptor(name)?).and_then(Map::from_map_data);
        map.and_then(T::try_from)
            .with_context(|| format!("opening the map {name}"))
    }

    /// A descriptor of a map.
    pub fn descriptor(&self, name: &str) -> anyhow::Result<OwnedFd> {
        let descriptor = self.borrow(name)?.try_clone_to_owned();
        descriptor.with_context(|| format!("duplicating the descriptor of the map {name}"))
    }

    /// The descriptor of a map.
    pub fn borrow(&self, name: &str) -> anyhow::Result<BorrowedFd<'_>> {
        let map = self.0.get(name);
        map.map(AsFd::as_fd)
            .ok_or_else(|| anyhow!("the loader gave no map {name}"))
    }

    /// Two empty maps like this one, with room for one element and two.
    pub fn samples(&self, name: &str) -> anyhow::Result<[OwnedFd; 2]> {
        let [one, two] = loader::samples(name);
        Ok([self.descriptor(&one)?, self.descriptor(&two)?])
    }

    /// The sizes of the maps.
    pub fn statuses(&self) -> anyhow::Result<Vec<MapStatus>> {
        let tables = self.0.iter().filter(|(name, _)| loader::is_shared(name));
        tables
            .map(|(name, map)| status(name, map.as_fd()))
            .collect()
    }
}

fn status(name: &str, map: BorrowedFd<'_>) -> anyhow::Result<MapStatus> {
    let asking = || format!("asking for the size of {name}");
    let data = map.try_clone_to_owned().with_context(asking)?;
    let info = MapData::from_fd(data).and_then(|data| data.info());
    let of_element = if TABLES.contains(&name) {
        SLOTS
    } else if REFUSED_MAPS.contains(&name) {
        WAYS
    } else {
        1
    };
    Ok(MapStatus {
        name: name.to_owned(),
        entries: None,
        capacity: info.with_context(asking)?.max_entries() * u32::try_from(of_element)?,
        memory_bytes: count::memory_bytes(map).unwrap_or_default(),
    })
}
