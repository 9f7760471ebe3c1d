//! What a dashboard shows.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is followed beside what every dashboard shows.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct LiveRequest {
    /// An address whose [`Check`](super::Check) comes each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}
