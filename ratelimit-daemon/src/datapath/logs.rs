//! The maps of the sliding logs. They are as large as the limits need, and one small entry where there are none.
//!
//! The program says no sizes that hold: the loader makes these maps before it loads the program, which finds them by their pins.

use std::{
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsFd, OwnedFd},
};

use aya_obj::generated::bpf_cmd;
use ratelimit_common::source::LogKey;
use ratelimit_core::log_size::LogSize;

use super::{
    Result,
    batch::{self, Place},
    family_maps::unreadable,
};
use crate::syscall;

const LOGS: &str = "LOGS";

/// How much of the logs is read in one call, and how many at least.
const AT_ONCE_BYTES: u32 = 1 << 20;
const LOGS_MIN: u32 = 16;

/// The source of a log.
pub fn address_of(key: &LogKey) -> IpAddr {
    let address = Ipv6Addr::from(key.octets());
    match address.to_ipv4_mapped() {
        Some(address) if key.is_ipv4() => IpAddr::V4(address),
        _ => IpAddr::V6(address),
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
    pub fn for_some(&self, place: &Place, visit: impl FnMut(LogKey, &[u64])) -> Result<Place> {
        if self.size.times == 0 {
            return Ok(Place::default());
        }
        let words = self.size.words() as usize;
        let logs = (AT_ONCE_BYTES / self.size.value_bytes()).max(LOGS_MIN) as usize;
        batch::for_some_words(self.map.as_fd(), place, logs, words, visit).map_err(unreadable(LOGS))
    }

    /// The words of a log; `None` when nothing was logged.
    pub fn words(&self, key: LogKey) -> Result<Option<Vec<u64>>> {
        let mut words = vec![0; self.size.words() as usize];
        let (command, map) = (bpf_cmd::BPF_MAP_LOOKUP_ELEM, self.map.as_fd());
        // aya knows only sizes that a type has.
        // SAFETY: there are as many words as a value of the map has.
        let is_there = unsafe { syscall::read(command, map, &key, words.as_mut_ptr()) };
        Ok(is_there.map_err(unreadable(LOGS))?.then_some(words))
    }
}
