//! What is banned, or has a budget: to this crate a key that can be ordered and written.

use core::hash::Hash;

/// The longest key, in bytes as written.
pub const KEY_MAX: usize = 64;

/// A key. What it means (a prefix, a source and a limit) is known to the caller only.
pub trait Key: Clone + Ord + Hash {
    /// Appends the key, at most [`KEY_MAX`] bytes. Equal keys are written alike.
    fn write(&self, to: &mut Vec<u8>);

    /// Reads a key that was written; nothing where the bytes are none.
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
