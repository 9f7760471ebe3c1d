//! The prefix-length filter of a family, of which only those parts are mapped that were used since it was last released.
//!
//! Its words are stored one by one, each whole, so it has to be mapped. A list of millions asks for them in no order, so what is
//! mapped stays so for a while. But the whole of both families are 13 MiB, of which a daemon at rest needs nothing.

use std::{
    cell::OnceCell,
    io,
    os::fd::{AsFd, OwnedFd},
};

use super::{mapped::Mapped, maps::Maps};

/// The words of a part: 64 KiB.
const PART: u32 = 1 << 13;

/// The words of the prefix-length filter of a family.
pub(super) struct PrefixFilter {
    name: &'static str,
    map: OwnedFd,
    words: u32,
    parts: Vec<OnceCell<Mapped>>,
}

impl PrefixFilter {
    /// A prefix-length filter of `words` words.
    pub fn new(maps: &Maps, name: &'static str, words: u32) -> anyhow::Result<Self> {
        Ok(Self {
            name,
            map: maps.descriptor(name)?,
            words,
            parts: (0..words.div_ceil(PART)).map(|_| OnceCell::new()).collect(),
        })
    }

    /// The word at `index`.
    pub fn load(&self, index: u32) -> u64 {
        let (part, index) = self.place(index);
        part.load(index)
    }

    /// Replaces the word at `index`, whole.
    pub fn store(&self, index: u32, word: u64) {
        let (part, index) = self.place(index);
        part.store(index, word);
    }

    /// Lets go of what is mapped.
    pub fn release(&mut self) {
        for part in &mut self.parts {
            part.take();
        }
    }

    /// The part that a word is in, and its index there.
    fn place(&self, index: u32) -> (&Mapped, u32) {
        let part = index / PART;
        let mapped = self.parts[part as usize].get_or_init(|| {
            // As with any other memory, there is no going on without it. The kernel goes on, and the next start repairs.
            self.map_part(part)
                .unwrap_or_else(|error| panic!("no memory to map a part of {}: {error}", self.name))
        });
        (mapped, index % PART)
    }

    fn map_part(&self, part: u32) -> io::Result<Mapped> {
        let (start, end) = (part * PART, self.words.min((part + 1) * PART));
        Mapped::part(self.map.as_fd(), start as usize..end as usize)
    }
}
