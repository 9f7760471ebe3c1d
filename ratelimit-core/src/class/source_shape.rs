//! Source addresses that no regular packet has.

use ratelimit_common::parse::addresses::Addresses;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source addresses that no legitimate packet has.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SourceShape {
    /// Source and destination are equal.
    Land,
    /// Reserved or unroutable.
    Bogon,
}

impl SourceShape {
    /// Whether addresses with these [bits](Addresses::bits) have it.
    pub const fn has(self, bits: u32) -> bool {
        match self {
            Self::Land => Addresses::LAND.are_in(bits),
            Self::Bogon => Addresses::BOGON.are_in(bits),
        }
    }

    /// The phrase that follows "packets" in messages.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Land => "from their own destination",
            Self::Bogon => "from a bogon",
        }
    }
}
