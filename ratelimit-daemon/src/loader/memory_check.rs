//! Whether the machine has the memory for the state of sources, before the kernel is asked for it.

use anyhow::ensure;
use aya_obj::Object;
use ratelimit_common::compact::Set;
use ratelimit_core::memory;

use super::{MapPlan, map_names::SOURCE_MAPS, pins::Pins};
use crate::loader::TABLES;

/// Kernel memory per element of a hash map, in addition to key and value, including its bucket
/// (`struct htab_elem` and `struct bucket` of `kernel/bpf/hashtab.c`).
const ELEMENT_BYTES: u64 = 48;
const BUCKET_BYTES: u64 = 16;

/// Refuses state that would take more than half of the memory that is available, unless it is there
/// already.
pub fn require(object: &Object, plan: &MapPlan, pins: &Pins) -> anyhow::Result<()> {
    let maps = match plan.sizes.sets {
        None => SOURCE_MAPS,
        Some(_) => TABLES,
    };
    let is_there = |name: &&str| {
        object
            .maps
            .get(*name)
            .is_some_and(|map| pins.has(name, map))
    };
    if maps.iter().all(is_there) {
        return Ok(());
    }
    let bytes = match plan.sizes.sets {
        None => maps
            .iter()
            .filter_map(|name| object.maps.get(*name))
            .map(lru_bytes)
            .sum(),
        Some(sets) => 2 * u64::from(sets) * size_of::<Set>() as u64,
    };
    ensure_half(bytes, plan.capacity, available_bytes())
}

/// Returns the available memory. The state of sources may take half of it, and the sliding logs the
/// other half. The loader measures it itself. If the kernel does not report it, allocation fails
/// instead.
pub fn available_bytes() -> u64 {
    memory::available_bytes().unwrap_or(u64::MAX)
}

/// The memory of an LRU hash map.
fn lru_bytes(map: &aya_obj::Map) -> u64 {
    let [key, value] =
        [map.key_size(), map.value_size()].map(|bytes| u64::from(bytes).next_multiple_of(8));
    let entries = u64::from(map.max_entries());
    entries * (ELEMENT_BYTES + key + value) + entries.next_power_of_two() * BUCKET_BYTES
}

fn ensure_half(bytes: u64, capacity: u32, available: u64) -> anyhow::Result<()> {
    let fits = u128::from(capacity) * u128::from(available / 2) / u128::from(bytes.max(1));
    ensure!(
        bytes <= available / 2,
        "the state of {capacity} sources of each family takes {} MiB, which is more than half of \
         the {} MiB of available memory: write [source] capacity = {} or less",
        bytes >> 20,
        available >> 20,
        fits.max(1)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_the_memory_is_refused_with_what_fits() {
        assert!(ensure_half(1 << 29, 1_000_000, 1 << 30).is_ok());
        let error = ensure_half(2 << 30, 1_000_000, 1 << 30)
            .unwrap_err()
            .to_string();
        let expected = "the state of 1000000 sources of each family takes 2048 MiB, which is more \
                        than half of the 1024 MiB of available memory: write [source] \
                        capacity = 250000 or less";
        assert_eq!(error, expected);
    }
}
