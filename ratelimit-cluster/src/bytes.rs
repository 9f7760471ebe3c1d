//! Reads and writes fields, with a bound on each length.

use crate::key::{KEY_MAX, Key};
use crate::name::{NAME_MAX, NodeName};

/// The reason a field cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The message ends within a field.
    #[error("it ends within {0}")]
    Cut(&'static str),
    /// A length or a count is above its bound.
    #[error("{0} is beyond its bound")]
    Bound(&'static str),
    /// An unknown value.
    #[error("{0} has a value that does not exist")]
    Value(&'static str),
    /// Bytes follow the last field.
    #[error("{0} bytes follow the last field")]
    Rest(usize),
}

/// Reads fields from the remaining bytes.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads a number of bytes.
    pub fn bytes(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Wrong::Cut(what))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads one byte.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, Wrong> {
        Ok(self.bytes(1, what)?.first().copied().unwrap_or_default())
    }

    /// Reads a number of 8 bytes.
    pub fn fixed(&mut self, what: &'static str) -> Result<u64, Wrong> {
        let bytes = self.bytes(8, what)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads a number in groups of 7 bits, lowest first, in the shortest form.
    pub fn number(&mut self, what: &'static str) -> Result<u64, Wrong> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let group = u64::from(byte & 0x7f);
            if group.leading_zeros() < shift || (byte == 0 && shift > 0) {
                return Err(Wrong::Value(what));
            }
            number |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Wrong::Value(what))
    }

    /// Reads a count or a length up to a bound.
    pub fn count(&mut self, most: usize, what: &'static str) -> Result<usize, Wrong> {
        let count = usize::try_from(self.number(what)?).map_err(|_| Wrong::Bound(what))?;
        if count > most {
            Err(Wrong::Bound(what))
        } else {
            Ok(count)
        }
    }

    /// Reads a count, up to a bound, and that many items.
    pub fn list<T>(
        &mut self,
        most: usize,
        what: &'static str,
        read: impl Fn(&mut Self) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        let count = self.count(most, what)?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Reads the name of a node.
    pub fn name(&mut self) -> Result<NodeName, Wrong> {
        let length = self.count(NAME_MAX, "a name")?;
        let text = core::str::from_utf8(self.bytes(length, "a name")?).ok();
        text.and_then(NodeName::new).ok_or(Wrong::Value("a name"))
    }

    pub fn key<K: Key>(&mut self) -> Result<K, Wrong> {
        let length = self.count(KEY_MAX, "a key")?;
        K::read(self.bytes(length, "a key")?).ok_or(Wrong::Value("a key"))
    }

    /// Fails if bytes are left.
    pub fn end(self) -> Result<(), Wrong> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Wrong::Rest(self.0.len()))
        }
    }
}

/// Writes fields.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Writes a number of 8 bytes.
    pub fn fixed(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    /// Writes a number in groups of 7 bits.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    pub fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// Writes a count and the items.
    pub fn list<T>(&mut self, things: &[T], write: impl Fn(&T, &mut Self)) {
        self.count(things.len());
        for thing in things {
            write(thing, self);
        }
    }

    /// Writes a length and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub fn name(&mut self, name: &NodeName) {
        self.bytes(name.as_str().as_bytes());
    }

    pub fn key<K: Key>(&mut self, key: &K) {
        let mut written = Vec::new();
        key.write(&mut written);
        self.bytes(&written);
    }
}
