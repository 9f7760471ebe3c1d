//! Parts of the configuration that are not enforced at the moment.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Header of every response while an interface is not protected: a list of [`Unenforced`] as JSON.
pub const UNENFORCED: &str = "ratelimit-unenforced";

/// Reason shown for packets that pass because nothing is enforced.
pub const NOT_ENFORCED: &str = "not-enforced";

/// An interface that is not protected.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Unenforced {
    /// Configured name of the interface.
    pub interface: String,
    /// The reason the interface is not protected.
    pub why: String,
    /// When protection was lost.
    pub since: Timestamp,
}

/// A failure that does not affect enforcement and is retried.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Trouble {
    /// The failing part: `metrics`, `state`, `configuration`, `pins`.
    pub what: String,
    /// The error and its consequences.
    pub error: String,
    /// When the failure began.
    pub since: Timestamp,
}
