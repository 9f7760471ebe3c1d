//! TCP flags in the configuration: `syn`, `invalid`, or `fin,psh,urg / fin,syn,rst,psh,ack,urg` as
//! in nft.

use std::{fmt, str::FromStr};

use ratelimit_common::parse::transport::{Details, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects TCP segments by flags: `syn`, `invalid`, `syn-ack`, `rst`, or `FLAGS/MASK`.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(try_from = "String", into = "String")]
pub enum TcpFlags {
    /// SYN without ACK.
    Syn,
    /// Combinations that no implementation sends.
    Invalid,
    /// Exactly the flags in `value` among those in `mask`.
    Masked {
        /// Flags that must be set.
        value: u8,
        /// Flags that are compared.
        mask: u8,
    },
}

/// The error of invalid TCP flags.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FlagsError {
    /// A word that is no flag.
    #[error("there is no TCP flag `{0}`")]
    Unknown(String),
    /// No mask, and no name of a shape.
    #[error("`{0}` does not name the flags to examine")]
    NoMask(String),
    /// A flag that is set, but not in the mask.
    #[error("`{0}` is set, but not examined: no packet would belong to the class")]
    NotLookedAt(&'static str),
}

/// The flags, from the lowest bit on (RFC 9293, 3.1).
const NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

const FIN: u8 = 1 << 0;
const SYN: u8 = 1 << 1;
const RST: u8 = 1 << 2;
const PSH: u8 = 1 << 3;
/// The segment has an acknowledgement number.
pub const ACK: u8 = 1 << 4;
const URG: u8 = 1 << 5;

/// Shapes that have a name.
const SHAPES: [(&str, TcpFlags); 4] = [
    ("syn", TcpFlags::Syn),
    ("invalid", TcpFlags::Invalid),
    ("syn-ack", TcpFlags::SYN_ACK),
    ("rst", TcpFlags::RST),
];

const fn all_of(flags: u8) -> TcpFlags {
    TcpFlags::Masked {
        value: flags,
        mask: flags,
    }
}

impl TcpFlags {
    /// The answer to a SYN.
    pub const SYN_ACK: Self = all_of(SYN | ACK);

    /// A connection request.
    pub const LONE_SYN: Self = Self::Masked {
        value: SYN,
        mask: FIN | SYN | RST | ACK,
    };

    /// The end of a connection by force.
    pub const RST: Self = all_of(RST);

    /// FIN, PSH and URG without ACK.
    pub const CHRISTMAS: Self = Self::Masked {
        value: FIN | PSH | URG,
        mask: FIN | PSH | ACK | URG,
    };

    /// Whether a packet of this kind may have such flags.
    pub const fn may_be_of(self, kind: Kind) -> bool {
        match self {
            Self::Syn => kind.is_syn(),
            Self::Invalid => kind.is_invalid(),
            Self::Masked { .. } => true,
        }
    }

    /// Whether a packet of which this is known may have them. Flags that come in a later fragment
    /// may be any.
    pub fn may_have(self, details: Details) -> bool {
        match self {
            Self::Syn | Self::Invalid => true,
            Self::Masked { value, mask } => {
                let flags = details.tcp_flags();
                details == Details::HIDDEN || flags.is_some_and(|flags| flags & mask == value)
            }
        }
    }

    /// The names of the shapes that have one.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHAPES.iter().map(|(name, _)| *name)
    }
}

impl FromStr for TcpFlags {
    type Err = FlagsError;

    /// Parses a name, or flags, a slash, and the mask.
    fn from_str(text: &str) -> Result<Self, FlagsError> {
        if let Some((_, flags)) = SHAPES.iter().find(|(name, _)| *name == text) {
            return Ok(*flags);
        }
        let Some((value, mask)) = text.split_once('/') else {
            parse(text)?;
            return Err(FlagsError::NoMask(text.to_owned()));
        };
        let (value, mask) = (parse(value)?, parse(mask)?);
        if mask == 0 {
            return Err(FlagsError::NoMask(text.to_owned()));
        }
        match names(value & !mask).next() {
            Some(name) => Err(FlagsError::NotLookedAt(name)),
            None => Ok(Self::Masked { value, mask }),
        }
    }
}

/// Reads `syn,ack`, or nothing.
pub fn parse(text: &str) -> Result<u8, FlagsError> {
    let words = text.split(',').map(str::trim);
    let words = words.filter(|word| !word.is_empty());
    words.into_iter().try_fold(0, |flags, word| {
        let bit = NAMES.iter().position(|name| *name == word);
        let bit = bit.ok_or_else(|| FlagsError::Unknown(word.to_owned()))?;
        Ok(flags | 1 << bit)
    })
}

/// The names of the flags that are set.
pub fn names(flags: u8) -> impl Iterator<Item = &'static str> {
    let named = NAMES.into_iter().enumerate();
    named.filter_map(move |(bit, name)| (flags & 1 << bit != 0).then_some(name))
}

impl fmt::Display for TcpFlags {
    /// Formats the flags as they are parsed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = SHAPES.iter().find(|(_, flags)| flags == self) {
            return formatter.write_str(name);
        }
        match *self {
            Self::Masked { value, mask } => {
                let words = |flags| names(flags).collect::<Vec<_>>().join(",");
                write!(formatter, "{} / {}", words(value), words(mask))
            }
            Self::Syn | Self::Invalid => unreachable!("they have names"),
        }
    }
}

from_text!(TcpFlags);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_they_are_written() {
        for text in [
            "syn",
            "invalid",
            "syn-ack",
            "rst",
            "fin,psh,urg / fin,syn,rst,psh,ack,urg",
            "ece / ece,cwr",
            " / syn",
        ] {
            let flags: TcpFlags = text.parse().unwrap();
            assert_eq!(flags.to_string(), text);
            assert_eq!(flags.to_string().parse(), Ok(flags));
        }
        assert_eq!("syn , ack/ack,syn".parse(), Ok(all_of(SYN | ACK)));
    }

    #[test]
    fn flags_that_no_packet_has_or_nobody_looks_at_are_refused() {
        for (text, expected) in [
            ("sin", "there is no TCP flag `sin`"),
            ("fin", "`fin` does not name the flags to examine"),
            ("syn /", "does not name the flags to examine"),
            ("syn / ack", "`syn` is set, but not examined"),
            ("syn / ack,pst", "there is no TCP flag `pst`"),
        ] {
            let error = text.parse::<TcpFlags>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_mask_looks_at_its_flags_alone() {
        let flags: TcpFlags = "syn / syn,rst".parse().unwrap();
        for value in 0..=u8::MAX {
            let expected = value & 0b110 == 0b010;
            assert_eq!(flags.may_have(Details::tcp(value)), expected);
        }
        assert!(flags.may_have(Details::HIDDEN) && !flags.may_have(Details::NONE));
        assert!(!flags.may_have(Details::icmp(0, 2)));
    }
}
