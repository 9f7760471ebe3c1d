//! Names of the series of the history.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use ratelimit_common::{Verdict, layout::Counter};
use ratelimit_core::{limit::LimitSpec, watched::Watched};

/// The action of series of policies.
const POLICY: &str = "policy";
/// Prefix of series of remaining quota.
pub const LEVEL: &str = "left of ";

/// Packets that have something in common.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Series {
    /// Packets of a verdict.
    Verdict {
        /// `pass`, `drop` or `observe`.
        action: Cow<'static, str>,
        /// The reason, as in the metrics.
        reason: Cow<'static, str>,
    },
    /// Packets that a configured policy judged.
    Policy(Arc<str>),
    /// No packets: the least that was left of a limit.
    Level {
        /// The owner of the limit, behind `LEVEL`.
        watched: Arc<str>,
        /// The limit, as JSON.
        limit: Arc<str>,
    },
}

/// Counters by series; for a quota the smallest remaining number of packets.
pub type Sums = BTreeMap<Series, Counter>;

impl Series {
    /// Returns the series of a verdict.
    pub const fn of(verdict: Verdict) -> Self {
        Self::Verdict {
            action: Cow::Borrowed(verdict.action()),
            reason: Cow::Borrowed(verdict.reason()),
        }
    }

    /// Returns the series of a limit.
    pub fn of_level(watched: &Watched, limit: &LimitSpec) -> Option<Self> {
        let limit = serde_json::to_string(limit).ok()?.into();
        let watched = format!("{LEVEL}{watched}").into();
        Some(Self::Level { watched, limit })
    }

    /// Combines the values of two times.
    pub fn joined(&self, one: Counter, other: Counter) -> Counter {
        match self {
            Self::Verdict { .. } | Self::Policy(_) => one.plus(other),
            Self::Level { .. } if other.packets < one.packets => other,
            Self::Level { .. } => one,
        }
    }

    /// Returns the form in the file.
    pub fn texts(&self) -> (&str, &str) {
        match self {
            Self::Verdict { action, reason } => (action, reason),
            Self::Policy(name) => (POLICY, name),
            Self::Level { watched, limit } => (watched, limit),
        }
    }

    /// Parses the texts of the file.
    pub fn from_texts(kind: String, name: String) -> Self {
        if kind == POLICY {
            Self::Policy(name.into())
        } else if kind.starts_with(LEVEL) {
            let (watched, limit) = (kind.into(), name.into());
            Self::Level { watched, limit }
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
        let sum = sums.entry(series.clone());
        let sum = sum.and_modify(|sum| *sum = series.joined(*sum, *count));
        sum.or_insert(*count);
    }
}
