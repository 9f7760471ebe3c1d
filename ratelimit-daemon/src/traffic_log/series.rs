//! What is counted over time, each by its name.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use ratelimit_common::{Verdict, layout::Counter};

/// What stands for a policy among the actions.
const POLICY: &str = "policy";

/// Packets that have something in common.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Series {
    /// Those of a verdict.
    Verdict {
        /// `pass`, `drop` or `observe`.
        action: Cow<'static, str>,
        /// The reason, as in the metrics.
        reason: Cow<'static, str>,
    },
    /// Those that a policy of the configuration judged.
    Policy(Arc<str>),
}

/// What came of each series.
pub type Sums = BTreeMap<Series, Counter>;

impl Series {
    /// That of a verdict.
    pub const fn of(verdict: Verdict) -> Self {
        Self::Verdict {
            action: Cow::Borrowed(verdict.action()),
            reason: Cow::Borrowed(verdict.reason()),
        }
    }

    /// As it stands in the file.
    pub fn texts(&self) -> (&str, &str) {
        match self {
            Self::Verdict { action, reason } => (action, reason),
            Self::Policy(name) => (POLICY, name),
        }
    }

    /// As it was read from the file.
    pub fn from_texts(kind: String, name: String) -> Self {
        if kind == POLICY {
            Self::Policy(name.into())
        } else {
            Self::Verdict {
                action: kind.into(),
                reason: name.into(),
            }
        }
    }
}

/// Adds what came to sums.
pub fn add(sums: &mut Sums, more: &Sums) {
    for (series, count) in more {
        let sum = sums.entry(series.clone()).or_default();
        *sum = sum.plus(*count);
    }
}
