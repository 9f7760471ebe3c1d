//! Fields of runtime limits.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Author, times and reason of runtime limits.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RuntimeEntry {
    /// When the limits expire; unset if they are permanent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When the limits were set.
    pub since: Timestamp,
    /// Free text given with the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The user who set the limits.
    #[serde(rename = "by")]
    pub author: Arc<str>,
}
