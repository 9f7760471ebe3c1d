//! The maps of the sliding logs. They are as large as the limits need, and one small entry where there are none.
//!
//! The program says no sizes that hold: the daemon makes these maps before the program is loaded, and the program finds them
//! by their pins.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, anyhow, ensure};
use aya::maps::MapData;
use aya_obj::{Map, Object, generated::bpf_cmd};
use ratelimit_common::source::LogKey;

use super::{
    DatapathError, Pins,
    batch::{self, Place},
    family_maps::unreadable,
    room, syscall,
};

const LOGS: &str = "LOGS";
const EMPTY_LOG: &str = "EMPTY_LOG";

/// Sliding logs that are remembered unless the configuration says otherwise.
pub const LOGS_DEFAULT: u32 = 1 << 14;

/// How much of the logs is read in one call, and how many at least.
const AT_ONCE_BYTES: u32 = 1 << 20;
const LOGS_MIN: u32 = 16;

/// What the sliding logs can hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogSize {
    /// Packets of the largest limit; 0 where no limit is a sliding log.
    pub times: u32,
    /// Logs, one for each source and limit.
    pub logs: u32,
}

impl LogSize {
    /// No logs at all.
    pub const NONE: Self = Self { times: 0, logs: 1 };

    /// The words of a log: its head, and its times.
    #[must_use]
    pub const fn words(self) -> u32 {
        self.times + 1
    }

    /// The memory of all logs. The kernel takes it when the map is made, and some for its keys and lists besides.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.logs as u64 * self.value_bytes() as u64
    }

    const fn value_bytes(self) -> u32 {
        self.words() * u64::BITS / u8::BITS
    }
}

/// Gives the maps of the object their size.
///
/// # Errors
///
/// When the object does not have them.
pub fn resize(object: &mut Object, size: LogSize) -> anyhow::Result<()> {
    for name in [LOGS, EMPTY_LOG] {
        let Some(Map::Legacy(map)) = object.maps.get_mut(name) else {
            return Err(anyhow!("the BPF object has no map {name}"));
        };
        map.def.value_size = size.value_bytes();
    }
    if let Some(map) = object.maps.get_mut(LOGS) {
        map.set_max_entries(size.logs);
    }
    Ok(())
}

/// Refuses logs that would take more than half of the memory that is available, unless they are there already.
///
/// # Errors
///
/// With the figures, and what to write instead.
pub fn require_memory(object: &Object, size: LogSize, pins: &Pins) -> anyhow::Result<()> {
    if object.maps.get(LOGS).is_some_and(|map| pins.has(LOGS, map)) {
        return Ok(());
    }
    // A kernel that does not tell refuses by itself what it has no room for.
    let available = room::available_bytes().unwrap_or(u64::MAX);
    ensure_half(size, available)
}

fn ensure_half(size: LogSize, available: u64) -> anyhow::Result<()> {
    let LogSize { times, logs } = size;
    let logs_max = available / 2 / u64::from(size.value_bytes());
    ensure!(
        u64::from(logs) <= logs_max,
        "{logs} sliding logs of {times} packets take {} MiB, which is more than half of the {} MiB of memory that are \
         available: write [source] logs = {} or less, or smaller amounts",
        size.bytes() >> 20,
        available >> 20,
        logs_max.max(1)
    );
    Ok(())
}

/// Makes the maps that are not pinned yet.
///
/// # Errors
///
/// When the kernel refuses: usually for want of memory.
pub fn make(object: &Object, pins: &Pins) -> anyhow::Result<()> {
    for name in [LOGS, EMPTY_LOG] {
        let path = pins.map(name);
        let Some(map) = object.maps.get(name).filter(|_| !path.exists()) else {
            continue;
        };
        let made = MapData::create(map.clone(), name, None).with_context(|| {
            let bytes = u64::from(map.max_entries()) * u64::from(map.value_size());
            format!("making the map {name} of {bytes} bytes")
        })?;
        made.pin(&path)
            .with_context(|| format!("pinning {}", path.display()))?;
    }
    Ok(())
}

/// The logs, to read from.
pub struct Logs {
    map: OwnedFd,
    size: LogSize,
}

impl Logs {
    /// The logs in `map`, which is of this size.
    pub const fn new(map: OwnedFd, size: LogSize) -> Self {
        Self { map, size }
    }

    /// What they can hold.
    pub const fn size(&self) -> LogSize {
        self.size
    }

    /// Shows some logs from a place on, and answers where to go on: at the front after the last one.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn for_some(
        &self,
        place: &Place,
        visit: impl FnMut(LogKey, &[u64]),
    ) -> Result<Place, DatapathError> {
        if self.size.times == 0 {
            return Ok(Place::default());
        }
        let words = self.size.words() as usize;
        let logs = (AT_ONCE_BYTES / self.size.value_bytes()).max(LOGS_MIN) as usize;
        batch::for_some_words(self.map.as_fd(), place, logs, words, visit).map_err(unreadable(LOGS))
    }

    /// The words of a log; `None` when nothing was logged.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn words(&self, key: LogKey) -> Result<Option<Vec<u64>>, DatapathError> {
        let mut words = vec![0; self.size.words() as usize];
        let (command, map) = (bpf_cmd::BPF_MAP_LOOKUP_ELEM, self.map.as_fd());
        // aya knows only sizes that a type has.
        // SAFETY: there are as many words as a value of the map has.
        let is_there = unsafe { syscall::read(command, map, &key, words.as_mut_ptr()) };
        Ok(is_there.map_err(unreadable(LOGS))?.then_some(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_take_eight_bytes_a_packet_and_eight_for_the_head() {
        assert_eq!(
            LogSize {
                times: 5,
                logs: 1000
            }
            .bytes(),
            48_000
        );
        assert_eq!(LogSize::NONE.bytes(), 8);
    }

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
            "16384 sliding logs of 1023 packets take 128 MiB, which is more than half of the 255 MiB of memory that are \
             available: write [source] logs = 16383 or less, or smaller amounts"
        );
        assert!(ensure_half(LogSize::NONE, 16).is_ok());
    }

    #[test]
    fn this_machine_tells_how_much_memory_is_available() {
        assert!(room::available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
