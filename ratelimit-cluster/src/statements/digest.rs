//! What many statements come to, in 16 bytes: the same for the same statements in any order.

use sha2::{Digest as _, Sha256};

use super::statement::{Statement, Subject};
use crate::bytes::Writer;
use crate::key::Key;

/// How many statements, and the sum of their hashes. Two sets that differ have the same sum once in 2^64 times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many.
    pub count: u64,
    /// The sum of their hashes, modulo 2^64.
    pub sum: u64,
}

impl Digest {
    /// With one more statement.
    pub fn add(&mut self, hash: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash);
    }

    /// With one less.
    pub fn remove(&mut self, hash: u64) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(hash);
    }
}

/// The hash of a statement.
pub fn hash<K: Key>(statement: &Statement<K>) -> u64 {
    let mut writer = Writer::default();
    statement.write(&mut writer);
    hash_bytes(&writer.0)
}

/// The hash of what a statement is about.
pub fn hash_subject<K: Key>(subject: &Subject<K>) -> u64 {
    let mut writer = Writer::default();
    subject.write(&mut writer);
    hash_bytes(&writer.0)
}

/// The first 8 bytes of SHA-256: nobody finds two inputs with one hash by trying fewer than 2^32.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes)
        .iter()
        .take(8)
        .fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
