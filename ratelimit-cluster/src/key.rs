//! Keys of bans and budgets. This crate only orders and serializes them.

use core::hash::Hash;

/// The longest serialized key, in bytes.
pub const KEY_MAX: usize = 64;

/// A key. Only the caller knows its meaning (a prefix, a source and a limit).
pub trait Key: Clone + Ord + Hash {
    /// Appends the key, at most [`KEY_MAX`] bytes. Equal keys have equal bytes.
    fn write(&self, to: &mut Vec<u8>);

    /// Parses a key. `None` if the bytes are invalid.
    fn read(bytes: &[u8]) -> Option<Self>;
}

impl Key for Vec<u8> {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}
