//! Packets that matched a ban, an allow, a list or a policy. Nothing of it is there where they are not counted.

use ratelimit_common::layout::Counter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets that matched a ban, an allow, a list or a policy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct EntryCounter {
    /// Packets that it decided about, or whose limits it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Bytes of their frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl From<Option<Counter>> for EntryCounter {
    fn from(count: Option<Counter>) -> Self {
        Self {
            packets: count.map(|count| count.packets),
            bytes: count.map(|count| count.bytes),
        }
    }
}
