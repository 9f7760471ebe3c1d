//! A node's own statements, divided by their subjects into parts that are stored each by itself.
//!
//! A part has some 512 statements, so that a new ban makes one small write, and a node that misses
//! one reads one part.

use std::collections::BTreeSet;

use super::digest::hash_subject;
use super::statement::Subject;
use crate::key::Key;

/// A node has at most 2 to this power parts.
pub const PART_BITS_MAX: u8 = 12;

/// The most statements of a part, on average.
const STATEMENTS: usize = 512;

/// The index of the part that a subject belongs to, of 2 to the power of `bits`.
pub fn part_of<K: Key>(subject: &Subject<K>, bits: u8) -> u16 {
    let part = hash_subject(subject)
        .checked_shr(64 - u32::from(bits))
        .unwrap_or_default();
    u16::try_from(part).unwrap_or_default()
}

/// The parts of a node's own statements that are to be stored.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    bits: u8,
    changed: BTreeSet<u16>,
}

impl Parts {
    /// There are 2 to this power parts.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Takes in that there is a new statement, and how many there are.
    pub fn changed<K: Key>(&mut self, subject: &Subject<K>, statements: usize) {
        if statements > STATEMENTS << self.bits && self.bits < PART_BITS_MAX {
            self.bits += 1;
            self.all();
        }
        self.changed.insert(part_of(subject, self.bits));
    }

    /// A part is to be stored again.
    pub fn again(&mut self, part: u16) {
        self.changed.insert(part);
    }

    /// All parts are to be stored.
    pub fn all(&mut self) {
        self.changed = (0..1u16 << self.bits).collect();
    }

    /// The parts that are to be stored, once.
    pub fn take(&mut self) -> BTreeSet<u16> {
        core::mem::take(&mut self.changed)
    }
}
