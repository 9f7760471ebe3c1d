//! The maps of sliding logs. They are as large as the limits require, or one small entry if there
//! are none.
//!
//! When they grow, their content is copied.
//!
//! The sizes in the program are placeholders: the loader creates these maps before it loads the
//! program, which finds them by their pins.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use ratelimit_common::{algorithm::sliding_log::TIMES_MAX, source::LogKey};
use ratelimit_core::log_size::LogSize;

use super::{
    Result,
    backend::Backend,
    batch::{self, ScanPosition, bytes_of, bytes_of_mut, to_the_end},
    map_errors::{unreadable, unwritable},
};

pub const LOGS: &str = "LOGS";

/// The bytes of logs per read.
const AT_ONCE_BYTES: u32 = 1 << 20;
const LOGS_MIN: u32 = 16;

/// Returns the source of a log.
pub fn address_of(key: &LogKey) -> IpAddr {
    let address = Ipv6Addr::from(key.octets());
    match address.to_ipv4_mapped() {
        Some(address) if key.is_ipv4() => IpAddr::V4(address),
        _ => IpAddr::V6(address),
    }
}

pub struct Logs {
    map: Arc<dyn Backend>,
    size: LogSize,
}

impl Logs {
    /// Opens the logs in a map.
    pub fn new(map: Arc<dyn Backend>) -> Self {
        let size = map.size();
        let words = size.value_bytes / size_of::<u64>();
        let size = LogSize {
            times: u32::try_from(words.saturating_sub(1)).unwrap_or(u32::MAX),
            logs: size.capacity,
        };
        Self { map, size }
    }

    /// Returns the size of the logs.
    pub const fn size(&self) -> LogSize {
        self.size
    }

    /// Visits some logs from a position, and returns where to continue: the beginning after the
    /// last one.
    pub fn for_some(
        &self,
        place: &ScanPosition,
        visit: impl FnMut(LogKey, &[u64]),
    ) -> Result<ScanPosition> {
        if self.size.times == 0 {
            return Ok(ScanPosition::default());
        }
        let words = self.size.words() as usize;
        let logs = (AT_ONCE_BYTES / self.size.value_bytes()).max(LOGS_MIN) as usize;
        batch::for_some_parts(&*self.map, place, logs, words, visit).map_err(unreadable(LOGS))
    }

    /// Returns the words of a log. `None` if nothing was logged.
    pub fn words(&self, key: LogKey) -> Result<Option<Vec<u64>>> {
        let mut words = vec![0_u64; self.size.words() as usize];
        let is_there = self.map.lookup(bytes_of(&[key]), bytes_of_mut(&mut words));
        Ok(is_there.map_err(unreadable(LOGS))?.then_some(words))
    }

    /// Writes logs with these times, the newest last.
    pub fn put<'a>(&self, rows: impl Iterator<Item = (LogKey, &'a [u64])>) -> Result<()> {
        if self.size.times == 0 {
            return Ok(());
        }
        let empty = vec![0; self.size.words() as usize];
        let (mut keys, mut words) = (Vec::new(), Vec::new());
        for (key, times) in rows {
            if let Some(ring) = merge(&empty, &[&[0], times].concat()) {
                keys.push(key);
                words.extend(ring);
            }
        }
        self.write(&keys, &words)
    }

    /// Merges the logs of another map into these. It can be repeated.
    pub fn take_over(&self, other: &Self) -> Result<()> {
        to_the_end(|place| {
            let (mut keys, mut words, mut answer) = (Vec::new(), Vec::new(), Ok(()));
            let next = other.for_some(place, |key, before| match self.words(key) {
                Ok(own) => {
                    let empty = || vec![0; self.size.words() as usize];
                    if let Some(merged) = merge(&own.unwrap_or_else(empty), before) {
                        keys.push(key);
                        words.extend(merged);
                    }
                }
                Err(error) => answer = Err(error),
            })?;
            answer?;
            self.write(&keys, &words).map(|()| next)
        })
    }

    fn write(&self, keys: &[LogKey], words: &[u64]) -> Result<()> {
        let written = batch::update_part(&*self.map, keys, words);
        written.map_err(unwritable(LOGS, &*self.map))
    }
}

/// Returns a ring as long as `own` with the last times of both. A time occurs as often as in the
/// ring that has it more often. `None` if `own` already contains all.
fn merge(own: &[u64], before: &[u64]) -> Option<Vec<u64>> {
    let [head, of_own @ ..] = own else {
        return None;
    };
    let sorted = |times: &[u64]| {
        let mut times: Vec<u64> = times.iter().copied().filter(|time| *time != 0).collect();
        times.sort_unstable();
        times
    };
    let all = sorted(of_own);
    let mut own = all.iter().peekable();
    let mut merged = Vec::new();
    for time in sorted(before.get(1..)?) {
        while let Some(earlier) = own.next_if(|own| **own < time) {
            merged.push(*earlier);
        }
        own.next_if(|own| **own == time);
        merged.push(time);
    }
    merged.extend(own);
    let merged = merged.split_off(merged.len().saturating_sub(of_own.len()));
    if merged == all {
        return None;
    }
    // The next sequence number, so that concurrent readers notice the change.
    let sequence = (head / u64::from(TIMES_MAX) + 1) * u64::from(TIMES_MAX);
    let index = merged.len() % of_own.len();
    let mut ring = vec![sequence + index as u64];
    ring.extend(merged);
    ring.resize(of_own.len() + 1, 0);
    Some(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_ring_has_the_times_of_both_and_its_head_behind_the_last() {
        let sequence = u64::from(TIMES_MAX);
        // A full ring of three, with the oldest time in the middle.
        let before = [5 * sequence + 1, 9, 7, 8];
        let merged = merge(&[0; 6], &before).unwrap();
        assert_eq!(merged, [sequence + 3, 7, 8, 9, 0, 0]);
        // Repeated, and with a new time logged here.
        assert_eq!(merge(&merged, &before), None);
        let mut own = merged;
        own[4] = 12;
        assert_eq!(merge(&own, &before), None);
        let both = merge(&[0, 8, 12, 0, 0, 0], &before).unwrap();
        assert_eq!(both, [sequence + 4, 7, 8, 9, 12, 0]);
        // If not all fit, the last ones, and the head at the oldest.
        let shorter = merge(&[0, 10, 0], &before).unwrap();
        assert_eq!(shorter, [sequence, 9, 10]);
        // Packets with the same time count individually.
        let twice = merge(&[0; 4], &[0, 4, 4]).unwrap();
        assert_eq!(twice, [sequence + 2, 4, 4, 0]);
    }
}
