//! Packets that matched a ban, an allow, a list or a policy. Nothing of it is there where they are
//! not counted.

use ratelimit_common::layout::Counter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packet counter of a ban, allow, list or policy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct EntryCounter {
    /// Packets decided by the entry or judged by its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Bytes of those packets, with frame headers.
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
