//! The names of maps that are replaced, carried over or resized together.

use anyhow::anyhow;

/// The maps of the sources that were refused.
pub const REFUSED_MAPS: [&str; 2] = ["REFUSED_V4", "REFUSED_V6"];

/// The per-CPU state of the program, which includes list lookups and refused sources.
pub const OF_CPU: &str = "OF_CPU";

/// The caches of list lookups by prefix, per CPU.
pub const LOOKUP_CACHE_MAPS: [&str; 2] = ["LOOKUP_CACHE_V4", "LOOKUP_CACHE_V6"];

/// Usage of the budget for new sources. It is deleted together with the state of sources: with
/// empty state all sources are new.
pub const NEW_SOURCES_MAPS: [&str; 2] = ["NEW_SOURCES_TAKEN", "NEW_SOURCES_SHARES"];

/// The maps of the store `lru`.
pub const SOURCE_MAPS: [&str; 2] = ["SOURCES_V4", "SOURCES_V6"];

/// The error for an object that does not match this version.
pub fn missing(name: &str) -> anyhow::Error {
    anyhow!("the BPF object has no map {name}")
}
