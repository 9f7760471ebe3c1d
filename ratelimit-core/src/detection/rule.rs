//! Thresholds of attacks, and the answers to them.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

use super::Kind;
use crate::limit::{Algorithm, LimitSpec, LimitUnit};

/// The most packets a second that a rule may name.
pub const ABOVE_MAX: u32 = 1_000_000_000;

/// The answer to a detected attack.
#[derive(Deserialize, strum::IntoStaticStr, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Answer {
    /// Only reports it.
    #[default]
    Observe,
    /// Sources that send much of it get a further limit.
    Limit,
    /// They are banned.
    Ban,
}

/// The rule for one kind of attack.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// The packets a second from which on it is one.
    pub above: NonZeroU32,
    /// The answer.
    pub answer: Answer,
    /// The duration of the ban or limit for a source.
    pub length: Duration,
    /// Limit of an attacking source, in addition to its policy.
    pub limit: LimitSpec,
}

impl Rule {
    /// Returns the default rule of a kind.
    pub fn of(kind: Kind) -> Self {
        Self {
            above: kind.above_default(),
            answer: Answer::default(),
            length: Duration::from_mins(10),
            limit: limit_default(),
        }
    }
}

/// 10 packets a second: enough for a person to find out that something is wrong, and for no attack.
fn limit_default() -> LimitSpec {
    let second = Duration::from_secs(1);
    LimitSpec::new(10, LimitUnit::Packets, second, Algorithm::FixedWindow).expect("it fits")
}

/// The kinds that are looked for.
pub type Rules = BTreeMap<Kind, Rule>;
