//! What entries of a list are to networks that this host is connected to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether an entry that covers a connected network bans the hosts of that network.
#[derive(
    Clone,
    Copy,
    Debug,
    Deserialize,
    Eq,
    JsonSchema,
    PartialEq,
    Serialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Connected {
    /// The network is left out of the entry.
    Exempt,
    /// The entry holds for the network too.
    Include,
}
