//! A digest of a set of statements in 16 bytes, independent of their order.

use sha2::{Digest as _, Sha256};

use super::statement::{Statement, Subject};
use crate::bytes::Writer;
use crate::key::Key;

/// The number of statements and the sum of their hashes. Different sets have the same sum with a
/// probability of 2^-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The number of statements.
    pub count: u64,
    /// The sum of their hashes, modulo 2^64.
    pub sum: u64,
}

impl Digest {
    /// Adds a statement.
    pub fn add(&mut self, hash: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash);
    }

    /// Removes a statement.
    pub fn remove(&mut self, hash: u64) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(hash);
    }
}

/// Returns the hash of a statement.
pub fn hash<K: Key>(statement: &Statement<K>) -> u64 {
    let mut writer = Writer::default();
    statement.write(&mut writer);
    hash_bytes(&writer.0)
}

/// Returns the hash of a subject.
pub fn hash_subject<K: Key>(subject: &Subject<K>) -> u64 {
    let mut writer = Writer::default();
    subject.write(&mut writer);
    hash_bytes(&writer.0)
}

/// Returns the first 8 bytes of SHA-256. Finding two inputs with the same hash takes about 2^32
/// tries.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes)
        .iter()
        .take(8)
        .fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
