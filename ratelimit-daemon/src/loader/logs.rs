//! The maps of the sliding logs, with the required size.

use anyhow::{Context, ensure};
use aya::maps::{MapData, MapInfo};
use aya_obj::{Map, Object};
use ratelimit_common::algorithm::sliding_log::TIMES_MAX;
use ratelimit_core::log_size::LogSize;

use super::{MapPlan, map_names::missing, memory_check, pins::Pins};

/// The name of the map.
pub const LOGS: &str = "LOGS";
const EMPTY_LOG: &str = "EMPTY_LOG";

/// Gives the maps of the object their size.
pub fn resize(object: &mut Object, size: LogSize) -> anyhow::Result<()> {
    for name in [LOGS, EMPTY_LOG] {
        let Some(Map::Legacy(map)) = object.maps.get_mut(name) else {
            return Err(missing(name));
        };
        map.def.value_size = size.value_bytes();
    }
    if let Some(map) = object.maps.get_mut(LOGS) {
        map.set_max_entries(size.logs);
    }
    Ok(())
}

/// Returns the capacity of the pinned logs; `None` if there are none.
pub fn held(pins: &Pins) -> Option<LogSize> {
    let found = MapInfo::from_pin(pins.map(LOGS)).ok()?;
    let words = found.value_size() / (u64::BITS / u8::BITS);
    Some(LogSize {
        times: words.saturating_sub(1).min(TIMES_MAX),
        logs: found.max_entries(),
    })
}

/// Refuses logs that would take more than half of the memory that is available, unless they are
/// there already.
pub fn require_memory(object: &Object, plan: &MapPlan, pins: &Pins) -> anyhow::Result<()> {
    if object.maps.get(LOGS).is_some_and(|map| pins.has(LOGS, map)) {
        return Ok(());
    }
    ensure_half(plan.sizes.logs, memory_check::available_bytes())
}

fn ensure_half(size: LogSize, available: u64) -> anyhow::Result<()> {
    let LogSize { times, logs } = size;
    let logs_max = available / 2 / u64::from(size.value_bytes());
    ensure!(
        u64::from(logs) <= logs_max,
        "{logs} sliding logs of {times} packets take {} MiB, which is more than half of the {} MiB \
         of available memory: write [source] sliding_logs = {} or less, or smaller \
         amounts",
        size.bytes() >> 20,
        available >> 20,
        logs_max.max(1)
    );
    Ok(())
}

/// Makes the map of the empty log, where it is not pinned yet.
pub fn make(object: &Object, pins: &Pins) -> anyhow::Result<()> {
    let path = pins.map(EMPTY_LOG);
    let Some(map) = object.maps.get(EMPTY_LOG).filter(|_| !path.exists()) else {
        return Ok(());
    };
    let made = MapData::create(map.clone(), EMPTY_LOG, None);
    let made = made.with_context(|| format!("making the map {EMPTY_LOG}"))?;
    made.pin(&path)
        .with_context(|| format!("pinning {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_may_take_half_of_the_memory_and_not_more() {
        let size = LogSize {
            times: 1023,
            logs: 1 << 14,
        };
        assert!(ensure_half(size, 256 << 20).is_ok());
        let error = ensure_half(size, (256 << 20) - 1).unwrap_err().to_string();
        assert_eq!(
            error,
            "16384 sliding logs of 1023 packets take 128 MiB, which is more than half of the 255 \
             MiB of available memory: write [source] sliding_logs = 16383 or less, or \
             smaller amounts"
        );
        assert!(ensure_half(LogSize::NONE, 16).is_ok());
    }
}
