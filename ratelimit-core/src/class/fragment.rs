//! Which parts of fragmented packets belong to a class.

use ratelimit_common::parse::transport::Fragment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which parts of fragmented packets are meant: `true`, `false`, `"first"`, `"later"` or `"tiny"`.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(from = "FragmentsText", into = "FragmentsText")]
pub enum Fragments {
    /// Whole packets.
    None,
    /// Any part.
    Any,
    /// The first part, be it tiny.
    First,
    /// A later part.
    Later,
    /// A first part that ends before the flags of a TCP header.
    Tiny,
}

/// The words for some of them.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Part {
    First,
    Later,
    Tiny,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
enum FragmentsText {
    Whether(bool),
    Which(Part),
}

impl Fragments {
    /// What a configuration may write besides `true` and `false`.
    pub const WORDS: [(&str, Self); 3] = [
        ("first", Self::First),
        ("later", Self::Later),
        ("tiny", Self::Tiny),
    ];

    /// Whether a packet of which this part came is meant.
    pub const fn have(self, part: Fragment) -> bool {
        match self {
            Self::None => matches!(part, Fragment::Whole),
            Self::Any => !matches!(part, Fragment::Whole),
            Self::First => matches!(part, Fragment::First | Fragment::Tiny),
            Self::Later => matches!(part, Fragment::Later),
            Self::Tiny => matches!(part, Fragment::Tiny),
        }
    }

    /// As a message names them: `first fragments`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "unfragmented packets",
            Self::Any => "fragments",
            Self::First => "first fragments",
            Self::Later => "later fragments",
            Self::Tiny => "tiny fragments",
        }
    }
}

impl From<FragmentsText> for Fragments {
    fn from(text: FragmentsText) -> Self {
        match text {
            FragmentsText::Whether(false) => Self::None,
            FragmentsText::Whether(true) => Self::Any,
            FragmentsText::Which(Part::First) => Self::First,
            FragmentsText::Which(Part::Later) => Self::Later,
            FragmentsText::Which(Part::Tiny) => Self::Tiny,
        }
    }
}

impl From<Fragments> for FragmentsText {
    fn from(fragments: Fragments) -> Self {
        match fragments {
            Fragments::None => Self::Whether(false),
            Fragments::Any => Self::Whether(true),
            Fragments::First => Self::Which(Part::First),
            Fragments::Later => Self::Which(Part::Later),
            Fragments::Tiny => Self::Which(Part::Tiny),
        }
    }
}
