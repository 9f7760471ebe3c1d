//! How the API reports the budget for new sources.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity;

/// The budget for new sources.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NewSourcesStatus {
    /// New sources per window, on all CPUs together.
    pub count: u32,
    /// Length of the window in seconds.
    pub per_seconds: f64,
    /// Verdict for packets over the budget: `pass`, `drop` or `aggregate`.
    pub over_budget: String,
}

impl fmt::Display for NewSourcesStatus {
    /// `new sources: 100000 per 1s, excess is dropped`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = std::time::Duration::try_from_secs_f64(self.per_seconds).unwrap_or_default();
        let others = match self.over_budget.as_str() {
            "pass" => "passes",
            "drop" => "is dropped",
            _ => "is counted per /24 or /48",
        };
        write!(
            formatter,
            "new sources: {} per {}, excess {others}",
            self.count,
            quantity::duration(per)
        )
    }
}
