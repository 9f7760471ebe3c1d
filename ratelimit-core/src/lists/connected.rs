//! What entries of a list are to networks that this host is connected to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether an entry that covers a connected network bans the hosts of that network.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connected {
    /// The network is left out of the entry.
    Exempt,
    /// The entry holds for the network too.
    Include,
}
