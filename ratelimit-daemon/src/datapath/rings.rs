//! The rings by which the program sends events, samples and captured packets, for their readers.

use anyhow::{Context, anyhow};
use aya::maps::{Map, MapData, MapError};

use crate::{
    loader::Descriptors,
    recording::CaptureMaps,
    ring::{Events, Ring},
};

/// The rings, each with a single reader.
pub struct Rings {
    /// Sampled drops.
    pub events: Events,
    /// Samples of all packets.
    pub samples: Ring,
    /// Captures of dropped packets.
    pub captures: CaptureMaps,
}

impl Rings {
    /// Opens the rings, with duplicated descriptors.
    pub(super) fn open(maps: &Descriptors) -> anyhow::Result<Self> {
        Ok(Self {
            events: open(maps, "EVENTS")?,
            samples: Ring::new(descriptor(maps, "SAMPLES")?),
            captures: CaptureMaps::new(
                open(maps, "CAPTURE")?,
                open(maps, "CAPTURE_TALLY")?,
                Ring::new(descriptor(maps, "CAPTURED")?),
            ),
        })
    }
}

fn open<T: TryFrom<Map, Error = MapError>>(maps: &Descriptors, name: &str) -> anyhow::Result<T> {
    let map = MapData::from_fd(descriptor(maps, name)?).and_then(Map::from_map_data);
    map.and_then(T::try_from)
        .with_context(|| format!("opening the map {name}"))
}

fn descriptor(maps: &Descriptors, name: &str) -> anyhow::Result<std::os::fd::OwnedFd> {
    let map = maps.get(name);
    let map = map.ok_or_else(|| anyhow!("the loader gave no map {name}"))?;
    map.try_clone()
        .with_context(|| format!("duplicating the descriptor of the map {name}"))
}
