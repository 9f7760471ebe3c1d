//! The treatment by list entries of the networks that this host is connected to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a list entry that covers a connected network treats the hosts of that network.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connected {
    /// Exempts the network.
    Exempt,
    /// Includes the network.
    Include,
}
