//! The memory that the maps take, against what is free.

use ratelimit_core::{
    config::{Config, StateStore},
    memory,
};

use super::{Circumstances, finding::Finding};
use crate::phrase;

const CHECK: &str = "memory";
/// The memory of a source in the store `lru` for both families, in bytes.
const LRU_BYTES: u64 = 136 + 152;
/// The memory of a source and limit in the store `compact` for both families, in bytes.
const COMPACT_BYTES: u64 = 2 * 20;
/// Memory of the maps without the state of sources, in bytes; itemized in `docs/operating.md`.
const OTHER_BYTES: u64 = 131 << 20;

/// The maps of the daemon that answers, or about what those of the configuration would take.
pub fn examine(known: &Circumstances) -> Finding {
    let Some(available) = memory::available_bytes() else {
        return Finding::unknown(CHECK, "unknown", "/proc/meminfo has no MemAvailable").fix("free");
    };
    match (&known.status, &known.config) {
        (Some(status), _) => {
            let taken: u64 = status.maps.iter().map(|map| map.memory_bytes).sum();
            let found = format!(
                "the maps use {}, {} free",
                phrase::size(taken),
                phrase::size(available)
            );
            Finding::ok(CHECK, found)
        }
        (None, Some(config)) => wanted(config.source.capacity, bytes_of_source(config), available),
        (None, None) => {
            let found = format!("{} free", phrase::size(available));
            let why = "without daemon and configuration the size of the maps is unknown";
            Finding::unknown(CHECK, found, why).fix("rlctl doctor --config FILE")
        }
    }
}

/// Memory that a daemon needs that is not started yet. Like the daemon, it allows half of the
/// available memory for the state of sources. The locked memory limit does not apply: since 5.11
/// Linux accounts maps to control groups.
fn wanted(capacity: u32, bytes: u64, available: u64) -> Finding {
    let sources = u64::from(capacity) * bytes;
    let found = format!(
        "the maps would need about {}, {} free",
        phrase::size(sources + OTHER_BYTES),
        phrase::size(available)
    );
    if sources <= available / 2 {
        return Finding::ok(CHECK, found);
    }
    let why = "ratelimitd does not start if the state of sources needs more than half of that";
    let fits = (available / 2 / bytes.max(1)).max(1);
    Finding::error(CHECK, found, why).fix(format!("set [source] capacity = {fits} or less"))
}

/// Returns the memory of one source for both families.
fn bytes_of_source(config: &Config) -> u64 {
    let policies = config.policies.values().chain([&config.default_policy]);
    let limits = policies.map(|policy| policy.limits.len()).max();
    match config.source.store {
        StateStore::Lru => LRU_BYTES,
        StateStore::Compact => COMPACT_BYTES * limits.unwrap_or_default().max(1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::State, *};

    #[test]
    fn a_capacity_that_the_daemon_refuses_is_an_error_with_one_that_fits() {
        let finding = wanted(1_000_000, LRU_BYTES, 1 << 30);
        assert_eq!(finding.state, State::Ok);
        assert_eq!(
            finding.found,
            "the maps would need about 405.6 MiB, 1.0 GiB free"
        );
        let finding = wanted(10_000_000, LRU_BYTES, 1 << 30);
        assert_eq!(finding.state, State::Error);
        assert_eq!(
            finding.fix.unwrap(),
            "set [source] capacity = 1864135 or less"
        );
    }
}
