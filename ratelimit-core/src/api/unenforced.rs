//! What is configured and does not work at this moment.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The header of every answer while something is not enforced: a list of [`Unenforced`] as JSON.
pub const UNENFORCED: &str = "ratelimit-unenforced";

/// The reason why packets pass that would be dropped if anything were enforced.
pub const NOT_ENFORCED: &str = "not-enforced";

/// An interface whose packets are not judged.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Unenforced {
    /// Its configured name.
    pub interface: String,
    /// Why.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
}

/// Something else that does not work; it is tried again until it does.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Trouble {
    /// What: `metrics`, `state`, `configuration`, `pins`.
    pub what: String,
    /// Why, and what follows from it.
    pub error: String,
    /// Since when.
    pub since: Timestamp,
}
