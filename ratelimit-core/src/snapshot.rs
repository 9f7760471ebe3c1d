//! Snapshots of usage of limits with long windows, so that it survives a reboot.
//!
//! A snapshot is a sequence of frames: the length of the payload, its CRC-32, and the payload. The
//! first frame is the [`Header`], the last one contains the number of entries, so truncation is
//! detected. All numbers are little endian.
//!
//! Words are stored as in the kernel, together with their limits. Only a [`Passage`] translates
//! them to the clock of another boot.

mod decode;
mod encode;
mod passage;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use ratelimit_common::{Instant, Limit, Record, algorithm::Algorithm};

pub use self::{
    decode::{Snapshot, Unreadable},
    encode::Encoder,
    passage::Passage,
};
use crate::ip_family::IpFamily;

/// The first bytes of a snapshot.
const MAGIC: [u8; 8] = *b"rlusage\n";
/// The format of frames and entries. It changes with every change of either.
const FORMAT: u32 = 1;

const HEADER: u8 = 0;
const WORDS: u8 = 1;
const LOG: u8 = 2;
const TOTAL: u8 = 3;
const END: u8 = 4;

/// The configuration that the entries of a snapshot depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// The version of the tables in the kernel, which decides what words and limits look like.
    pub layout: u32,
    /// Whether the state of sources was in a `compact` table.
    pub is_compact: bool,
    /// The time of the snapshot, on the clock of the kernel.
    pub at: Instant,
    /// The same moment on the daemon's clock, which continues over a reboot, in nanoseconds.
    pub time_ns: i64,
    /// The limits of each scope, in their order.
    pub scopes: BTreeMap<u32, Vec<Limit>>,
}

/// The limits that a source has words of.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Group {
    /// The scope of their policy.
    pub scope: u32,
    /// The family of the source.
    pub family: IpFamily,
    /// A bit for each limit.
    pub limits: u8,
}

impl Group {
    /// The indices of the limits.
    pub fn indices(self) -> impl Iterator<Item = usize> {
        (0..u8::BITS as usize).filter(move |index| self.limits >> index & 1 != 0)
    }
}

/// The stored usage of a source, or of the node.
#[derive(Clone, Debug, PartialEq)]
pub enum SavedUsage {
    /// The words of a source, 0 for limits that are not in the group.
    Words {
        /// Its limits.
        group: Group,
        /// The source.
        source: IpAddr,
        /// Its words.
        record: Record,
    },
    /// The times in a sliding log of a source, in any order.
    Log {
        /// The scope of the policy.
        scope: u32,
        /// The index of the limit.
        limit: u32,
        /// The source.
        source: IpAddr,
        /// The times of admitted packets, on the clock of the kernel.
        times: Vec<u64>,
    },
    /// The words of limits of the node, of an interface or of a destination.
    Total {
        /// The scope of the policy.
        scope: u32,
        /// The words.
        record: Record,
    },
}

/// Whether usage of a limit counts for at least `window`: its window is as long, or its bucket
/// takes as long to fill.
pub fn is_long(limit: &Limit, window: Duration) -> bool {
    let algorithm = limit.algorithm();
    let ns = match &algorithm {
        Algorithm::FixedWindow(fixed) => fixed.window_ns(),
        Algorithm::SlidingWindow(sliding) => sliding.window_ns(),
        Algorithm::SlidingLog(log) => log.window_ns(),
        Algorithm::TokenBucket(_) => {
            let now = Instant::from_nanos(0);
            let empty = algorithm.step(0, now, algorithm.capacity());
            empty.map_or(0, |word| algorithm.clears_in_ns(word, now))
        }
    };
    u128::from(ns) >= window.as_nanos()
}
