//! The maps of the sliding logs. They are as large as the limits need, and one small entry where there are none.
//!
//! The program says no sizes that hold: the loader makes these maps before it loads the program, which finds them by their pins.

use std::os::fd::{AsFd, OwnedFd};

use aya_obj::generated::bpf_cmd;
use ratelimit_common::source::LogKey;
use serde::{Deserialize, Serialize};

use super::{
    DatapathError,
    batch::{self, Place},
    family_maps::unreadable,
    syscall,
};

const LOGS: &str = "LOGS";

/// Sliding logs that are remembered unless the configuration says otherwise.
pub const LOGS_DEFAULT: u32 = 1 << 14;

/// How much of the logs is read in one call, and how many at least.
const AT_ONCE_BYTES: u32 = 1 << 20;
const LOGS_MIN: u32 = 16;

/// What the sliding logs can hold.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
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

    /// The bytes of a log.
    #[must_use]
    pub const fn value_bytes(self) -> u32 {
        self.words() * u64::BITS / u8::BITS
    }
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
}
