//! Replaces the maps whose sizes depend on the policies: those of the store `lru`, whose records
//! have as many words as the largest policy has limits, and that of the sliding logs, which are as
//! long as the longest.
//!
//! Maps that differ only in size are replaced. The old ones stay pinned under another name until
//! the daemon has copied the usage and no program uses them. So if a daemon dies in between, the
//! next one finds them.

use std::{fs, os::fd::OwnedFd, path::PathBuf};

use anyhow::Context;
use aya::maps::{MapData, MapInfo};
use aya_obj::{Map, Object};
use tracing::info;

use super::{
    logs::LOGS,
    map_names::{NEW_SOURCES_MAPS, OF_CPU, REFUSED_MAPS, SOURCE_MAPS, missing},
    pins::{Pins, open_map},
};
use crate::private;

const WORD_BYTES: u32 = u64::BITS / u8::BITS;

/// The maps whose elements are carried over.
const CARRIED: [&str; 3] = [SOURCE_MAPS[0], SOURCE_MAPS[1], LOGS];

/// Maps with data of the words in records, which lets programs refuse packets without reading
/// records. They are created again together with the records.
const OF_WORDS: [&str; 3] = [REFUSED_MAPS[0], REFUSED_MAPS[1], OF_CPU];

/// Maps that are kept beside of each whose elements are carried over: more than one where daemons
/// were killed before they had carried them over.
pub const REPLACED_MAX: usize = 4;

/// The names by which the daemon is given the maps that a map replaces whose elements are carried
/// over.
pub fn replaced_names(name: &str) -> [String; REPLACED_MAX] {
    std::array::from_fn(|number| format!(".{name}.replaced.{number}"))
}

/// Returns the pins of the replaced maps.
fn replaced_pins(pins: &Pins, name: &str) -> [PathBuf; REPLACED_MAX] {
    std::array::from_fn(|number| pins.map(&format!("{name}_REPLACED_{number}")))
}

/// The words of the records that are pinned; `None` when there are none.
pub fn held_words(pins: &Pins) -> Option<u32> {
    let [map, _] = SOURCE_MAPS;
    let found = MapInfo::from_pin(pins.map(map)).ok()?;
    Some(found.value_size() / WORD_BYTES)
}

/// Sets the number of words in the records of the object's maps.
pub fn resize(object: &mut Object, words: u32) -> anyhow::Result<()> {
    for name in SOURCE_MAPS {
        let map = object.maps.get_mut(name).ok_or_else(|| missing(name))?;
        map.set_value_size(words * WORD_BYTES);
    }
    Ok(())
}

/// Creates the maps that are not pinned with the required size.
///
/// # Errors
///
/// If the kernel refuses, usually for lack of memory, everything is as before.
pub fn make(object: &Object, pins: &Pins) -> anyhow::Result<()> {
    let mut made = Vec::new();
    for name in CARRIED {
        let wanted = object.maps.get(name).ok_or_else(|| missing(name))?;
        if !pins.has(name, wanted) {
            // The BTF of the object would fix the words.
            let map = Map::new_from_params(
                wanted.map_type(),
                wanted.key_size(),
                wanted.value_size(),
                wanted.max_entries(),
                wanted.map_flags(),
            );
            let map = MapData::create(map, name, None)
                .with_context(|| format!("making the map {name}"))?;
            made.push((name, map, has_other_words(pins, name, wanted)));
        }
    }
    for (name, map, is_kept) in made {
        let (path, replaced_pins) = (pins.map(name), replaced_pins(pins, name));
        if is_kept {
            info!(
                map = name,
                "the record size changes; carrying over the usage of sources"
            );
            let free = replaced_pins.iter().find(|aside| !aside.exists());
            let [.., last] = &replaced_pins;
            let aside = free.unwrap_or(last);
            fs::rename(&path, aside)
                .with_context(|| format!("renaming {} to {}", path.display(), aside.display()))?;
        } else if path.exists() {
            info!(
                map = name,
                "a pinned map is incompatible; creating a new one"
            );
            private::remove(&path)?;
            remove_all(replaced_pins)?;
            pins.remove_maps(&NEW_SOURCES_MAPS)?;
            if SOURCE_MAPS.contains(&name) {
                pins.remove_maps(&OF_WORDS)?;
            }
        }
        map.pin(&path)
            .with_context(|| format!("pinning {}", path.display()))?;
    }
    Ok(())
}

/// Whether a map is pinned that differs in its words alone.
fn has_other_words(pins: &Pins, name: &str, wanted: &Map) -> bool {
    let Ok(found) = MapInfo::from_pin(pins.map(name)) else {
        return false;
    };
    let mut other = wanted.clone();
    other.set_value_size(found.value_size());
    pins.has(name, &other)
}

/// The maps that were replaced, by their names.
pub fn replaced(pins: &Pins) -> anyhow::Result<Vec<(String, OwnedFd)>> {
    let mut found = Vec::new();
    for name in CARRIED {
        let kept = replaced_names(name)
            .into_iter()
            .zip(replaced_pins(pins, name));
        for (name, path) in kept.filter(|(_, path)| path.exists()) {
            found.push((name, open_map(&path)?));
        }
    }
    Ok(found)
}

/// Lets them go.
pub fn forget(pins: &Pins) -> anyhow::Result<()> {
    remove_all(
        CARRIED
            .into_iter()
            .flat_map(|name| replaced_pins(pins, name)),
    )
}

fn remove_all(paths: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<()> {
    let mut paths = paths.into_iter();
    paths.try_for_each(|path| private::remove(&path).map(drop))
}
