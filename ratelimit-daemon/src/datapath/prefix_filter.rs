//! The prefix-length filter of a family. Only parts used since the last release are mapped.
//!
//! Its words must be stored one by one, each atomically, so it has to be mapped. A list of millions
//! uses them in random order, so parts stay mapped for a while. But both families together take 13
//! MiB, none of which an idle daemon needs.

use std::{cell::OnceCell, io, sync::Arc};

use super::{backend::Backend, mapped::Mapped, maps::Maps};

/// The words of a part: 64 KiB.
const PART: u32 = 1 << 13;

pub(super) struct PrefixFilter {
    name: &'static str,
    map: Arc<dyn Backend>,
    words: u32,
    parts: Vec<OnceCell<Mapped>>,
}

impl PrefixFilter {
    /// Opens a prefix-length filter with this number of words.
    pub fn new(maps: &Maps, name: &'static str, words: u32) -> anyhow::Result<Self> {
        Ok(Self {
            name,
            map: maps.open(name)?,
            words,
            parts: (0..words.div_ceil(PART)).map(|_| OnceCell::new()).collect(),
        })
    }

    /// Returns the word at `index`.
    pub fn load(&self, index: u32) -> u64 {
        let (part, index) = self.place(index);
        part.load(index)
    }

    /// Replaces the word at `index` atomically.
    pub fn store(&self, index: u32, word: u64) {
        let (part, index) = self.place(index);
        part.store(index, word);
    }

    /// Unmaps all parts.
    pub fn release(&mut self) {
        for part in &mut self.parts {
            part.take();
        }
    }

    /// Returns the part that contains a word, and the index in it.
    fn place(&self, index: u32) -> (&Mapped, u32) {
        let part = index / PART;
        let mapped = self.parts[part as usize].get_or_init(|| {
            // As with any other memory, failure is fatal. The kernel continues to enforce, and the
            // next start repairs the filter.
            self.map_part(part)
                .unwrap_or_else(|error| panic!("no memory to map a part of {}: {error}", self.name))
        });
        (mapped, index % PART)
    }

    fn map_part(&self, part: u32) -> io::Result<Mapped> {
        let (start, end) = (part * PART, self.words.min((part + 1) * PART));
        self.map.map_words(start as usize..end as usize)
    }
}
