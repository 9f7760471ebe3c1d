//! The busiest sources and destinations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Ban, LimitState};
use crate::{detection::Sending, geo::Place, prefix::Prefix};

/// Selects the busiest sources.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TopRequest {
    /// Maximum number of sources, up to 10,000; unset is 20.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Comma-separated prefixes to include while they are banned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub with: String,
}

/// Selects the busiest destinations.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TopDestinationsRequest {
    /// Maximum number of destinations, up to 10,000; unset is 20.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// A busy source, or a prefix with limits of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TopSource {
    /// The source or prefix.
    pub source: Prefix,
    /// The policy that applies to it.
    pub policy: String,
    /// The limit that is closest to being exceeded.
    pub limit: Option<LimitState>,
    /// Packets that limits refused, as far as they are remembered.
    pub refused_packets: u64,
    /// The ban that applies to the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ban: Option<Ban>,
    /// The most frequent kind of packet; unset if no sample shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<Sending>,
    /// The country and network of the source, if a list selects them from a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}
