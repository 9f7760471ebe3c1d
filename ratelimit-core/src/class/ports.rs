//! A set of ports: `53`, `8000-8100`.

use std::{fmt, ops::RangeInclusive, str::FromStr};

/// Ports, as ranges in their order that neither overlap nor touch: equal sets are written equally.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ports(Vec<(u16, u16)>);

/// Why a text is no port and no range of ports.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PortError {
    /// Not a number, and not two of them.
    #[error("`{0}` is no port and no range of ports")]
    Syntax(String),
    /// A number that is no port.
    #[error("there is no port {0}: the last one is 65535")]
    TooLarge(String),
    /// A range whose end lies before its start.
    #[error("the range `{first}-{last}` ends before it begins")]
    Reversed {
        /// Where it begins.
        first: u16,
        /// Where it ends.
        last: u16,
    },
}

impl Ports {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `port` is one of them.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&port))
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

impl FromIterator<RangeInclusive<u16>> for Ports {
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

/// Reads `53` or `8000-8100`.
pub fn parse_range(text: &str) -> Result<RangeInclusive<u16>, PortError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |digits: &str| {
        let digits = digits.trim();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(PortError::Syntax(text.to_owned()));
        }
        u16::from_str(digits).map_err(|_| PortError::TooLarge(digits.to_owned()))
    };
    let (first, last) = (port(first)?, port(last)?);
    if last < first {
        return Err(PortError::Reversed { first, last });
    }
    Ok(first..=last)
}

impl fmt::Display for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.texts().collect::<Vec<_>>().join(","))
    }
}
