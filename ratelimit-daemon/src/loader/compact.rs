//! The pins of the store `compact`: its table, its seeds, and what belongs together with them.

use anyhow::Context;
use aya::maps::{Array, MapData, MapInfo};
use aya_obj::Object;
use rustix::rand::{GetRandomFlags, getrandom};
use zerocopy::IntoBytes as _;

use super::{
    PinnedTable,
    map_names::{LOOKUP_CACHE_MAPS, NEW_SOURCES_MAPS, OF_CPU},
    pins::{Pins, open_map},
};

const SEEDS: &str = "COMPACT_SEEDS";
const CHALLENGE_KEY: &str = "CHALLENGE_KEY";
const POLICIES: &str = "POLICIES";

/// The tables of a family each.
pub const TABLES: [&str; 2] = ["COMPACT_V4", "COMPACT_V6"];

/// Maps that belong to the table. They are created again with it, so that a program on the old
/// table does not see regions of the new one. The daemon fills them before the new program runs.
const WITH_TABLES: [&str; 14] = [
    "SETTINGS",
    "INTERFACES",
    POLICIES,
    "AGGREGATES",
    "NODE",
    "FILTER_V4",
    "FILTER_V6",
    "LISTS_V4",
    "LISTS_V6",
    // Their answers belong to one state of the lists, whose numbers restart in the new filters.
    OF_CPU,
    LOOKUP_CACHE_MAPS[0],
    LOOKUP_CACHE_MAPS[1],
    NEW_SOURCES_MAPS[0],
    NEW_SOURCES_MAPS[1],
];

/// The seeds of the tags of the store `compact`.
pub type Seeds = [u64; 2];

/// Removes what was pinned with a table of another size.
pub fn remove_mismatched(object: &Object, pins: &Pins) -> anyhow::Result<()> {
    let fits = |name: &&str| {
        let wanted = object.maps.get(*name);
        wanted.is_some_and(|wanted| !pins.map(name).exists() || pins.has(name, wanted))
    };
    if TABLES.iter().all(fits) {
        return Ok(());
    }
    pins.remove_maps(&WITH_TABLES)
}

/// Reads the pinned table. `None` if there is none, or another store was used.
pub fn held_table(pins: &Pins) -> anyhow::Result<Option<PinnedTable>> {
    let path = pins.map(POLICIES);
    let [v4, v6] = TABLES.map(|name| MapInfo::from_pin(pins.map(name)));
    let sets = match (v4, v6) {
        (Ok(v4), Ok(v6)) if v4.max_entries() == v6.max_entries() => v4.max_entries(),
        _ => return Ok(None),
    };
    if sets == 1 || !path.exists() {
        return Ok(None);
    }
    let policies = open_map(&path)?;
    Ok(Some(PinnedTable { sets, policies }))
}

/// The seeds of the tags: those of the table that is pinned, or new ones.
pub fn seeds(pins: &Pins) -> anyhow::Result<Seeds> {
    let path = pins.map(SEEDS);
    if path.exists() {
        let map =
            MapData::from_pin(&path).with_context(|| format!("opening {}", path.display()))?;
        let map: Array<MapData, u64> = Array::try_from(aya::maps::Map::Array(map))?;
        return Ok([map.get(&0, 0)?, map.get(&1, 0)?]);
    }
    random()
}

/// Two random words.
fn random() -> anyhow::Result<Seeds> {
    let mut words: Seeds = [0; 2];
    // A few bytes are always returned completely.
    getrandom(words.as_mut_bytes(), GetRandomFlags::empty()).context("drawing random numbers")?;
    Ok(words)
}

/// Draws the key of the cookies, unless there is one: the cookies of a daemon before stay good.
pub fn keep_challenge_key(maps: &mut aya::Ebpf) -> anyhow::Result<()> {
    let map = maps
        .map_mut(CHALLENGE_KEY)
        .context("the BPF object has no key of cookies")?;
    let mut map = Array::<_, u64>::try_from(map)?;
    if [map.get(&0, 0)?, map.get(&1, 0)?] == [0; 2] {
        for (index, word) in (0..).zip(random()?) {
            map.set(index, word, 0)?;
        }
    }
    Ok(())
}

/// Keeps the seeds for as long as the table.
pub fn keep_seeds(maps: &mut aya::Ebpf, seeds: Seeds) -> anyhow::Result<()> {
    let map = maps.map_mut(SEEDS).context("the BPF object has no seeds")?;
    let mut map = Array::<_, u64>::try_from(map)?;
    for (index, seed) in (0..).zip(seeds) {
        map.set(index, seed, 0)?;
    }
    Ok(())
}
