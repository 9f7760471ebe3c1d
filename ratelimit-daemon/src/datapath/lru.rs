//! The maps of the store `lru`. A record has as many words as the largest policy has limits, which
//! the loader knows when it creates them.

use std::{marker::PhantomData, sync::Arc};

use anyhow::ensure;
use aya::Pod;
use ratelimit_common::{Ipv4, Ipv6, Record, SourceKey, limit::LIMITS_MAX};
use ratelimit_core::ip_family::IpAddress;

use super::{
    Result,
    backend::Backend,
    batch::{self, ScanPosition, bytes_of, bytes_of_mut, to_the_end},
    logs::{LOGS, Logs},
    map_errors::{unreadable, unwritable},
    maps::Maps,
};
use crate::loader::SOURCE_MAPS;

/// Records per read when copying.
const AT_ONCE: usize = 4096;

pub struct Records<A> {
    name: &'static str,
    map: Arc<dyn Backend>,
    words: usize,
    family: PhantomData<A>,
}

impl<A> Records<A>
where
    A: IpAddress,
    SourceKey<A>: Pod,
{
    pub fn new(name: &'static str, map: Arc<dyn Backend>) -> anyhow::Result<Self> {
        let bytes = map.size().value_bytes;
        let words = bytes / size_of::<u64>();
        ensure!(
            bytes.is_multiple_of(size_of::<u64>()) && (1..=LIMITS_MAX).contains(&words),
            "{name} has values of {bytes} bytes, which is not a record size"
        );
        Ok(Self {
            name,
            map,
            words,
            family: PhantomData,
        })
    }

    /// Returns the number of words of a record.
    pub const fn words(&self) -> usize {
        self.words
    }

    /// Returns the record of a source, if it has one.
    pub fn get(&self, key: &SourceKey<A>) -> Result<Option<Record>> {
        let mut record = Record::default();
        let words = bytes_of_mut(&mut record.words[..self.words]);
        let is_there = self.map.lookup(bytes_of(&[*key]), words);
        let is_there = is_there.map_err(unreadable(self.name))?;
        Ok(is_there.then_some(record))
    }

    /// Visits some records from a position, and returns where to continue: the beginning after the
    /// last one.
    pub fn for_some(
        &self,
        place: &ScanPosition,
        count: usize,
        mut visit: impl FnMut(SourceKey<A>, Record),
    ) -> Result<ScanPosition> {
        let visit = |key, words: &[u64]| {
            let mut record = Record::default();
            for (to, from) in record.words.iter_mut().zip(words) {
                *to = *from;
            }
            visit(key, record);
        };
        batch::for_some_parts(&*self.map, place, count, self.words, visit)
            .map_err(unreadable(self.name))
    }

    /// Writes records, replacing those of the same sources.
    pub fn put(&self, rows: impl Iterator<Item = (SourceKey<A>, Record)>) -> Result<()> {
        let (mut keys, mut words) = (Vec::new(), Vec::new());
        for (key, record) in rows {
            keys.push(key);
            words.extend_from_slice(record.words.get(..self.words).unwrap_or_default());
        }
        self.write(&keys, &words)
    }

    /// Merges the records of another map into these. If a source has a record here too, each word
    /// becomes the one with the higher usage, so it can be repeated.
    pub fn take_over(&self, other: &Self) -> Result<()> {
        to_the_end(|place| {
            let (mut keys, mut words, mut answer) = (Vec::new(), Vec::new(), Ok(()));
            let next = other.for_some(place, AT_ONCE, |key, before| match self.get(&key) {
                Ok(own) => {
                    let own = own.unwrap_or_default();
                    let merged = merge(own, before, self.words);
                    if merged != own {
                        keys.push(key);
                        words.extend_from_slice(merged.words.get(..self.words).unwrap_or_default());
                    }
                }
                Err(error) => answer = Err(error),
            })?;
            answer?;
            self.write(&keys, &words).map(|()| next)
        })
    }

    fn write(&self, keys: &[SourceKey<A>], words: &[u64]) -> Result<()> {
        let written = batch::update_part(&*self.map, keys, words);
        written.map_err(unwritable(self.name, &*self.map))
    }
}

/// Returns the words with the higher usage of two records under the same policy, up to `words`. For
/// every algorithm that is the greater word, except that words wrap. A word of 0 is unused.
fn merge(one: Record, other: Record, words: usize) -> Record {
    let mut merged = one;
    let pairs = merged.words.iter_mut().zip(other.words);
    for (word, other) in pairs.take(words) {
        let is_less = word.wrapping_sub(other).cast_signed() < 0;
        if *word == 0 || (is_less && other != 0) {
            *word = other;
        }
    }
    merged
}

/// The maps of both families, and those of sliding logs, that are being replaced.
pub struct Replaced {
    pub v4: Vec<Records<Ipv4>>,
    pub v6: Vec<Records<Ipv6>>,
    pub logs: Vec<Logs>,
}

impl Replaced {
    /// Opens the maps that the loader reports as replaced, if any.
    pub fn of(maps: &Maps) -> anyhow::Result<Option<Self>> {
        let [v4, v6] = SOURCE_MAPS;
        let replaced = Self {
            v4: maps.replaced(v4, |map| Records::new(v4, map))?,
            v6: maps.replaced(v6, |map| Records::new(v6, map))?,
            logs: maps.replaced(LOGS, |map| Ok(Logs::new(map)))?,
        };
        let is_any =
            !replaced.v4.is_empty() || !replaced.v6.is_empty() || !replaced.logs.is_empty();
        Ok(is_any.then_some(replaced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_records_the_one_counts_by_which_more_is_used() {
        let record = |words: [u64; 3]| {
            let mut record = Record::default();
            record.words[..3].copy_from_slice(&words);
            record
        };
        let one = record([5, 0, u64::MAX - 3]);
        let other = record([7, 9, 2]);
        // The last one has wrapped.
        let both = record([7, 9, 2]);
        assert_eq!(merge(one, other, 4), both);
        assert_eq!(merge(other, one, 4), both);
        assert_eq!(merge(both, other, 4), both);
        // 0 is unused, even if another word is far away.
        let far = record([1 << 63 | 1, 0, 0]);
        assert_eq!(merge(far, record([0; 3]), 4), far);
        assert_eq!(merge(record([0; 3]), far, 4), far);
        // Words without room are dropped.
        assert_eq!(merge(record([0; 3]), other, 1), record([7, 0, 0]));
    }
}
