//! `[detection]`, and a table in it for each kind of attack with its own answer or threshold:
//! `[detection.syn_flood] threshold = 500, answer = "limit", for = "10m", limit = { packets = 10,
//! per = "1s" }`.

use std::num::NonZeroU32;

use ratelimit_common::strikes::AFTER_MAX;

use super::{limit, report::At, table::Section};
use crate::{
    ban::{LENGTH_MAX, LENGTH_MIN},
    detection::{ABOVE_MAX, Answer, Kind, Rule, Rules},
    limit::LimitSpec,
};

/// The default limit of answers per minute to sources that may be forged. It is lower, because a
/// forger chooses these sources.
pub const FORGEABLE_DEFAULT: NonZeroU32 = NonZeroU32::new(250).expect("it is not 0");

/// The most bans a minute, unless the configuration says otherwise.
pub const PER_MINUTE_DEFAULT: NonZeroU32 = NonZeroU32::new(1000).expect("it is not 0");

/// The name in messages.
pub const TITLE: &str = "[detection]";

/// `[detection]`.
pub struct DetectionConfig {
    /// The most bans a minute of sources with an established connection.
    pub bans_per_minute: NonZeroU32,
    /// The limit of bans per minute for sources that may be forged.
    pub forgeable_per_minute: NonZeroU32,
    /// Whether kinds without a table are reported.
    pub report: bool,
    /// The attacks with tables.
    pub attacks: Rules,
    /// The limits that sources may get, each with its place.
    pub limits: Vec<At<LimitSpec>>,
}

/// Reads `[detection]`.
pub fn read(mut section: Section<'_>) -> At<DetectionConfig> {
    let mut budget = |key, default: NonZeroU32| {
        let number = section.integer(key, 1..=AFTER_MAX, default.get());
        NonZeroU32::new(number).unwrap_or(default)
    };
    let bans_per_minute = budget("bans_per_minute", PER_MINUTE_DEFAULT);
    let forgeable_per_minute = budget("forgeable_per_minute", FORGEABLE_DEFAULT);
    let report = section.take("report");
    let report = report.is_none_or(|value| value.boolean() != Some(false));
    let mut attacks = Rules::new();
    let mut limits = vec![];
    for kind in Kind::ALL.iter().copied() {
        let title = format!("[detection.{}]", kind.key());
        let table = section.take(kind.key());
        if let Some(table) = table.and_then(|value| value.table(&title, &title)) {
            let (rule, limit) = read_rule(kind, table);
            attacks.insert(kind, rule);
            limits.extend(limit);
        }
    }
    let spot = section.finish();
    let value = DetectionConfig {
        bans_per_minute,
        forgeable_per_minute,
        report,
        attacks,
        limits,
    };
    At { value, spot }
}

/// Invalid values are reported and replaced by the default.
fn read_rule(kind: Kind, mut section: Section<'_>) -> (Rule, Option<At<LimitSpec>>) {
    let default = Rule::of(kind);
    let above = section.integer("threshold", 1..=ABOVE_MAX, default.above.get());
    let answer = section.choice("answer");
    let length = section.duration("for", &(LENGTH_MIN..=LENGTH_MAX), default.length);
    let limit = section.take("limit");
    if let Some(limit) = limit.as_ref().filter(|_| answer != Some(Answer::Limit)) {
        let hint = "write answer = \"limit\" beside it, or remove it";
        limit.complain("`limit` needs answer = \"limit\"", hint);
    }
    let limit = limit.and_then(limit::read);
    section.finish();
    let rule = Rule {
        above: NonZeroU32::new(above).unwrap_or(default.above),
        answer: answer.unwrap_or(default.answer),
        length,
        limit: limit.as_ref().map_or(default.limit, |at| at.value.clone()),
    };
    (rule, limit)
}
