//! The result of a simulation, as printed by `rlctl simulate --json`. The field names are stable.

use std::time::Duration;

use serde::Serialize;

use crate::{config::StateStore, detection::Answer as Detected, prefix::Prefix};

pub use super::{clock::Times, tally::Tally};

/// The whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Packets that were judged.
    pub packets: u64,
    /// The bytes on the wire.
    pub bytes: u64,
    /// Packets that the capture has only the front of.
    pub cut: u64,
    /// Packets with truncated headers, whose class is unknown.
    pub cut_headers: u64,
    /// The times of the packets.
    pub time: Times,
    /// Sources that they came from.
    pub sources_seen: usize,
    /// Sources of a family that can have state.
    pub sources_capacity: u32,
    /// The store of the state of sources.
    pub store: StateStore,
    /// The number of sources whose state was evicted for another.
    pub evicted: u64,
    /// Whether a policy bans sources with connections alone, of which a simulation knows none.
    pub bans_connected: bool,
    /// Sources that policies would have banned, where everything is a dry run: of that no ban is
    /// kept.
    pub would_be_banned: usize,
    /// The resolution of the clock, if it was the coarse one.
    pub tick: Option<Duration>,
    /// Whether everything is a dry run.
    pub observe: bool,
    /// Packets by verdict, without verdicts that did not occur.
    pub verdicts: Vec<VerdictRow>,
    /// Sources that lost a packet, or would have.
    pub sources_dropped: usize,
    /// The sources that lost the most.
    pub sources: Vec<RefusedSource>,
    /// The verdicts over time.
    pub timeline: Timeline,
    /// Attacks that would have been named; `None` if the configuration looks for none.
    pub attacks: Option<Vec<AttackRow>>,
    /// Challenged sources; `None` if the configuration has no challenge.
    pub challenged: Option<Challenged>,
    /// The result for another configuration, and the differences.
    pub comparison: Option<ComparisonAnswer>,
}

/// An attack that would have been named.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttackRow {
    /// The kind.
    pub kind: &'static str,
    /// The target or source of the attack.
    pub subject: String,
    /// The end of the second in which the attack was found, from the first packet on; the end of
    /// the capture if that is earlier.
    pub start_seconds: f64,
    /// The end of the last second in which the attack was seen.
    pub end_seconds: f64,
    /// The most packets in a second.
    pub packets_per_second: u64,
    /// The most sources in a second, or more.
    pub sources_seen: u64,
    /// The configured answer for its sources.
    pub answer: Detected,
    /// The sources that this would have been done about, but for the budgets of a minute.
    pub sources: Vec<Prefix>,
}

/// Sources that would have been challenged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Challenged {
    /// The number of challenged sources.
    pub sources: usize,
    /// Sources that later sent an acknowledgement, and so would have passed the challenge.
    pub verified: usize,
}

/// Packets of a verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictRow {
    /// `pass`, `drop` or `observe`.
    pub action: &'static str,
    /// The reason, as in the metrics.
    pub reason: &'static str,
    /// The number of packets.
    pub packets: u64,
    /// The bytes on the wire.
    pub bytes: u64,
}

/// A source that lost packets, or would have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusedSource {
    /// The source, as the configuration cuts addresses.
    pub source: Prefix,
    /// The outcome of its packets.
    #[serde(flatten)]
    pub tally: Tally,
    /// The refusal of its first packet.
    pub first: Option<Refused>,
}

/// The reason a packet was refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// The reason, as in the metrics.
    pub reason: &'static str,
    /// The policy, where a limit of it decided.
    pub policy: Option<String>,
    /// The limit that decided.
    pub limit: Option<String>,
}

/// Packets over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// The length of each interval.
    pub interval_seconds: f64,
    /// All of them, the first one beginning with the first packet.
    pub intervals: Vec<Interval>,
}

/// Packets of an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Seconds from the first packet to its beginning.
    pub start_seconds: f64,
    /// The outcome of its packets.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Another configuration on the same packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonAnswer {
    /// The verdicts of the old configuration.
    pub verdicts_old: Vec<VerdictRow>,
    /// The packets of the old configuration over time.
    pub timeline_old: Timeline,
    /// Packets by what both said of them.
    pub verdicts: Vec<VerdictPair>,
    /// Sources whose packets fared differently.
    pub sources_changed: usize,
    /// Sources that lose packets, and did not.
    pub sources_newly_dropped: usize,
    /// Sources that lose none, and did.
    pub sources_no_longer_dropped: usize,
    /// The sources whose packets fared the most differently.
    pub sources: Vec<ChangedSource>,
}

/// Packets of which the configurations said this and that.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictPair {
    /// The verdict of the old configuration.
    pub old: VerdictName,
    /// The verdict of the new configuration.
    pub new: VerdictName,
    /// The number of packets.
    pub packets: u64,
    /// The bytes on the wire.
    pub bytes: u64,
}

/// A verdict.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct VerdictName {
    /// `pass`, `drop` or `observe`.
    pub action: &'static str,
    /// The reason, as in the metrics.
    pub reason: &'static str,
}

/// A source whose packets fare differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedSource {
    /// The source, as the new configuration cuts addresses.
    pub source: Prefix,
    /// The outcome of its packets under the old configuration.
    pub old: Tally,
    /// The outcome under the new configuration.
    pub new: Tally,
    /// The first refusal by the new configuration; `null` if there is none.
    pub first: Option<Refused>,
}
