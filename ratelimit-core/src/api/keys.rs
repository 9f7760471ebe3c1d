//! Limits of keys: users, tokens, URLs.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keys::{Level, Mode, TopKey};

/// Asks for requests of a key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ObtainRequest {
    /// The key space: the name of a `[keys.NAME]`.
    pub space: String,
    /// The key, of at most 1024 bytes.
    pub key: String,
    /// The number of requests; 0 only asks how many remain.
    #[serde(default = "one")]
    pub amount: u64,
    /// Whether a part of the amount is useful.
    #[serde(default)]
    pub mode: Mode,
    /// The address of the client behind the request, which `on_refused` may ban.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<IpAddr>,
}

fn one() -> u64 {
    1
}

/// One request, or several at once.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// A single request or answer.
    One(T),
    /// Several, answered in the same order.
    Many(Vec<T>),
}

/// The answer to an [`ObtainRequest`].
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ObtainAnswer {
    /// The requests that were obtained.
    pub obtained: u64,
    /// The requests that remain.
    pub remaining: u64,
    /// Seconds until the whole amount fits, if less was obtained. `null` if it never does because a
    /// limit is smaller, and if everything was obtained.
    pub retry_after: Option<f64>,
}

/// Selects keys of a space.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct KeysRequest {
    /// The number of keys, 20 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// Names a key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// The key space.
    pub space: String,
    /// The name of the key.
    pub key: String,
}

/// A limit and its usage by a key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct KeyLimit {
    /// The limit: `15 requests per 1s`.
    pub limit: String,
    /// The most that can be in use.
    pub capacity: u64,
    /// Requests in use.
    pub used: u64,
    /// Seconds until nothing is in use, without further requests.
    pub clears_in_seconds: f64,
}

/// A busy key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct BusyKey {
    /// The key space.
    pub space: String,
    /// The name of the key.
    pub key: String,
    /// The limit that is closest to its capacity.
    #[serde(flatten)]
    pub fullest: KeyLimit,
}

/// The usage of a key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct KeyUsage {
    /// The key space.
    pub space: String,
    /// The name of the key.
    pub key: String,
    /// Usage of each limit.
    pub limits: Vec<KeyLimit>,
}

/// Whether a key had usage that was reset.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct KeyReset {
    /// `false` if it had none.
    pub reset: bool,
}

impl From<Level> for KeyLimit {
    fn from(level: Level) -> Self {
        Self {
            limit: level.limit.to_string(),
            capacity: level.capacity,
            used: level.used,
            clears_in_seconds: level.clears_in.as_secs_f64(),
        }
    }
}

impl BusyKey {
    /// Returns the key of a space.
    pub fn of(space: &str, top: TopKey) -> Self {
        Self {
            space: space.to_owned(),
            key: top.key,
            fullest: top.fullest.into(),
        }
    }
}
