//! Sources that proved themselves on a node, and that the others need not ask then.
//!
//! Each is told once, with what is left of its time, and nothing of it is stored: who misses the message asks the source itself. So many a
//! second are told, and so many are taken of a peer. A source that was told cannot be taken back; it ends with its time.

use std::collections::VecDeque;

use smart_default::SmartDefault;

use crate::bytes::{Reader, Writer, Wrong};
use crate::key::Key;
use crate::statements::{Bounds, Bucket};
use crate::time::Millis;

/// The most sources of a message.
pub const VERIFIED_MAX: usize = 1024;

/// The most that wait to be told.
const WAITING_MAX: usize = 16_384;

/// A source that proved itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<K> {
    /// The source.
    pub key: K,
    /// For how long it need not do so again.
    pub left: Millis,
}

impl<K: Key> Verified<K> {
    pub(crate) fn write(&self, to: &mut Writer) {
        to.key(&self.key);
        to.number(self.left);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, Wrong> {
        Ok(Self {
            key: from.key()?,
            left: from.number("a time")?,
        })
    }

    /// The same so much later; `None` where its time is over.
    fn after(self, age: Millis) -> Option<Self> {
        let left = self.left.checked_sub(age).filter(|left| *left > 0)?;
        Some(Self { left, ..self })
    }
}

/// Sources of this node that wait to be told, each with the monotonic time since when.
#[derive(Clone, Debug, SmartDefault)]
pub struct Waiting<K> {
    sources: VecDeque<(Millis, Verified<K>)>,
    bucket: Bucket,
}

impl<K: Key> Waiting<K> {
    /// Adds sources, and answers for how many there was room.
    pub fn add(
        &mut self,
        monotonic: Millis,
        sources: impl IntoIterator<Item = Verified<K>>,
    ) -> usize {
        let before = self.sources.len();
        let room = WAITING_MAX.saturating_sub(before);
        let sources = sources.into_iter().take(room);
        self.sources
            .extend(sources.map(|source| (monotonic, source)));
        self.sources.len() - before
    }

    /// Takes out as many as may be told.
    pub fn take(&mut self, bounds: &Bounds, monotonic: Millis) -> Vec<Verified<K>> {
        let mut taken = Vec::new();
        while !self.sources.is_empty() && self.bucket.take_verified(bounds, monotonic) {
            let next = self.sources.pop_front();
            taken.extend(
                next.and_then(|(since, source)| source.after(monotonic.saturating_sub(since))),
            );
        }
        taken
    }
}

/// What is taken of sources that a peer told so long ago, and how many are not.
pub fn taken<K: Key>(
    sources: Vec<Verified<K>>,
    age: Millis,
    bounds: &Bounds,
    bucket: &mut Bucket,
    monotonic: Millis,
) -> (Vec<Verified<K>>, usize) {
    let count = sources.len();
    let taken: Vec<_> = sources
        .into_iter()
        .take_while(|_| bucket.take_verified(bounds, monotonic))
        .collect();
    let beyond = count - taken.len();
    let taken = taken.into_iter().filter_map(|source| source.after(age));
    (taken.collect(), beyond)
}
