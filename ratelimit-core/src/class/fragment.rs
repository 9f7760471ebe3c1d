//! The parts of fragmented packets that belong to a class.

use ratelimit_common::parse::transport::Fragment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects parts of fragmented packets: `true`, `false`, `"first"`, `"later"` or `"tiny"`.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Fragments {
    /// First fragments, including tiny ones.
    First,
    /// Later fragments, which have no transport header.
    Later,
    /// First fragments that end before the TCP flags.
    Tiny,
    /// Any fragment, or only whole packets.
    #[serde(untagged)]
    Whether(bool),
}

impl Fragments {
    /// Any part.
    pub const ANY: Self = Self::Whether(true);
    /// Whole packets.
    pub const NONE: Self = Self::Whether(false);

    /// Accepted words besides `true` and `false`.
    pub const WORDS: [(&str, Self); 3] = [
        ("first", Self::First),
        ("later", Self::Later),
        ("tiny", Self::Tiny),
    ];

    /// Whether a packet of which this part came is meant.
    pub const fn have(self, part: Fragment) -> bool {
        match self {
            Self::Whether(is_part) => is_part != matches!(part, Fragment::Whole),
            Self::First => matches!(part, Fragment::First | Fragment::Tiny),
            Self::Later => matches!(part, Fragment::Later),
            Self::Tiny => matches!(part, Fragment::Tiny),
        }
    }

    /// The name in messages: `first fragments`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NONE => "unfragmented packets",
            Self::ANY => "fragments",
            Self::First => "first fragments",
            Self::Later => "later fragments",
            Self::Tiny => "tiny fragments",
        }
    }
}
