//! The operations of a map on bytes. [`KernelMap`](super::kernel::KernelMap) is one of the kernel,
//! `MemoryMap` one for tests. Everything that knows the types of keys and values is above.

use std::{io, mem::MaybeUninit, ops::Range};

use super::mapped::Mapped;

/// The sizes of a map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MapSize {
    pub key_bytes: usize,
    /// The bytes of a value, of all CPUs if each has one.
    pub value_bytes: usize,
    /// The most elements.
    pub capacity: u32,
}

/// The elements read from a map in one call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Read {
    pub count: usize,
    /// Whether they are the last ones of the map.
    pub is_last: bool,
}

/// A map. The lengths of keys and values are those of its [`MapSize`].
///
/// # Safety
///
/// [`read_batch`](Self::read_batch) initializes as many keys and values as it counts.
pub unsafe trait Backend: Send + Sync {
    fn size(&self) -> MapSize;

    /// Returns the memory of the map, if it is known.
    fn memory_bytes(&self) -> Option<u64>;

    /// Copies a value; `false` if there is none with this key.
    fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool>;

    /// Inserts an element, or replaces it unless it `is_new`.
    fn update(&self, key: &[u8], value: &[u8], is_new: bool) -> io::Result<()>;

    /// Removes an element and copies its value, atomically; `false` if there is none.
    fn take(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool>;

    /// Copies as many elements as there is room for, from behind `place` or from the beginning, and
    /// sets `next` to the place of the last one.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if a bucket of the map has more elements than there is room for.
    fn read_batch(
        &self,
        place: Option<&[u8]>,
        next: &mut [u8],
        keys: &mut [MaybeUninit<u8>],
        values: &mut [MaybeUninit<u8>],
    ) -> io::Result<Read>;

    /// Inserts or replaces elements. If it fails, some of them were written.
    fn update_batch(&self, keys: &[u8], values: &[u8]) -> io::Result<()>;

    /// Removes elements; missing ones are skipped. If it fails, some of them were removed.
    fn delete_batch(&self, keys: &[u8]) -> io::Result<()>;

    /// Maps some words of an array into the memory of this process.
    fn map_words(&self, words: Range<usize>) -> io::Result<Mapped>;
}
