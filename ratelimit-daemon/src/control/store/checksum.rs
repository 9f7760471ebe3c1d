//! The checksum of a row, by which a damaged value is distinguished from a sound one: SQLite checks the structure of its file, and not
//! what stands in it.

/// A CRC-32 over the values of a row, each with its length. It finds every single flipped bit.
pub struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// That of an empty row of `table`.
    pub fn of(table: &str) -> Self {
        Self(crc32fast::Hasher::new()).bytes(table.as_bytes())
    }

    /// With a text or a blob.
    pub fn bytes(mut self, value: &[u8]) -> Self {
        self.0.update(&(value.len() as u64).to_le_bytes());
        self.0.update(value);
        self
    }

    /// With a text that may be missing.
    pub fn optional(self, value: Option<&str>) -> Self {
        match value {
            Some(text) => self.integer(1).bytes(text.as_bytes()),
            None => self.integer(0),
        }
    }

    /// With a number.
    pub fn integer(mut self, value: i64) -> Self {
        self.0.update(&value.to_le_bytes());
        self
    }

    /// With a number that may be missing.
    pub fn optional_integer(self, value: Option<i64>) -> Self {
        match value {
            Some(number) => self.integer(1).integer(number),
            None => self.integer(0),
        }
    }

    /// The sum.
    pub fn sum(self) -> u32 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_do_not_run_into_each_other() {
        let sums = [
            Checksum::of("t").bytes(b"ab").bytes(b"c").sum(),
            Checksum::of("t").bytes(b"a").bytes(b"bc").sum(),
            Checksum::of("t").optional(Some("")).bytes(b"abc").sum(),
            Checksum::of("t").optional(None).bytes(b"abc").sum(),
            Checksum::of("u").bytes(b"ab").bytes(b"c").sum(),
            Checksum::of("t").optional_integer(Some(0)).sum(),
            Checksum::of("t").optional_integer(None).sum(),
        ];
        for (index, sum) in sums.iter().enumerate() {
            assert!(!sums[..index].contains(sum), "{index}");
        }
    }
}
