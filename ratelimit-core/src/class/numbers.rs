//! Sets of numbers in headers: `53`, `8000-8100`.

use std::{fmt, ops::RangeInclusive, str::FromStr};

/// Numbers, as ranges in their order that neither overlap nor touch: equal sets are written
/// equally.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Numbers(Vec<(u16, u16)>);

/// The error of an invalid number or range.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NumberError {
    /// Not a number, and not two of them.
    #[error("`{text}` is not a {what} or a range")]
    Syntax {
        /// The noun for the number.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// A number that the header has no room for.
    #[error("there is no {what} {number}: the last one is {last}")]
    TooLarge {
        /// The noun for the number.
        what: &'static str,
        /// The number as written.
        number: String,
        /// The last one there is.
        last: u16,
    },
    /// A range whose end precedes its start.
    #[error("the range `{first}-{last}` ends before it begins")]
    Reversed {
        /// The start of the range.
        first: u16,
        /// The end of the range.
        last: u16,
    },
}

/// The property that the numbers belong to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    /// The key of the configuration.
    pub key: &'static str,
    /// The noun for one of the numbers.
    pub what: &'static str,
    /// The last one there is.
    pub last: u16,
}

impl Numbers {
    /// Whether the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `number` is one of them.
    pub fn contains(&self, number: u16) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// The last of them.
    pub fn last(&self) -> Option<u16> {
        self.0.last().map(|(_, last)| *last)
    }

    /// Whether every number up to `last` is one of them.
    pub fn has_all(&self, last: u16) -> bool {
        matches!(*self.0, [(0, end)] if end >= last)
    }

    /// Each range as it is written.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
    }
}

impl FromIterator<RangeInclusive<u16>> for Numbers {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u16>>>(ranges: I) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().map(RangeInclusive::into_inner).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = vec![];
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if u32::from(first) <= u32::from(before.1) + 1 => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }
}

impl Field {
    /// Reads `53` or `8000-8100`.
    pub fn parse_range(self, text: &str) -> Result<RangeInclusive<u16>, NumberError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (self.parse(first, text)?, self.parse(last, text)?);
        if last < first {
            return Err(NumberError::Reversed { first, last });
        }
        Ok(first..=last)
    }

    fn parse(self, digits: &str, text: &str) -> Result<u16, NumberError> {
        let digits = digits.trim();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NumberError::Syntax {
                what: self.what,
                text: text.to_owned(),
            });
        }
        let number = u16::from_str(digits)
            .ok()
            .filter(|number| *number <= self.last);
        number.ok_or_else(|| NumberError::TooLarge {
            what: self.what,
            number: digits.to_owned(),
            last: self.last,
        })
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.texts().collect::<Vec<_>>().join(","))
    }
}
