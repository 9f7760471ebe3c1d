//! What is found by itself: `[detection]`, and a table in it for each kind of attack that the daemon is to look for:
//! `[detection.syn_flood] above = 500, answer = "limit", for = "10m", limit = { packets = 10, per = "1s" }`.

use std::num::NonZeroU32;

use ratelimit_common::strikes::AFTER_MAX;

use super::{
    limit,
    report::{At, Report},
    table::Section,
};
use crate::{
    ban::{LENGTH_MAX, LENGTH_MIN},
    detection::{ABOVE_MAX, Answer, Kind, Rule, Rules},
    diagnostic::Problem,
    limit::LimitSpec,
};

/// The most answers a minute to sources that may be forged, unless the configuration says otherwise: fewer, as whoever forges
/// addresses chooses who is answered.
pub const UNVERIFIED_DEFAULT: NonZeroU32 = NonZeroU32::new(250).expect("it is not 0");

/// The most bans a minute, unless the configuration says otherwise.
pub const PER_MINUTE_DEFAULT: NonZeroU32 = NonZeroU32::new(1000).expect("it is not 0");

/// As a message names it.
pub const TITLE: &str = "[detection]";

const ANSWERS: [(&str, Answer); 3] = [
    ("observe", Answer::Observe),
    ("limit", Answer::Limit),
    ("ban", Answer::Ban),
];

/// `[detection]`.
pub struct Detection {
    /// The most bans a minute of sources that are verified.
    pub bans_per_minute: NonZeroU32,
    /// The most bans and limits a minute of those that may be forged.
    pub unverified_per_minute: NonZeroU32,
    /// The attacks that are looked for.
    pub attacks: Rules,
    /// The limits that sources may get, each with its place.
    pub limits: Vec<At<LimitSpec>>,
    /// The names of classes that those mention.
    pub mentions: Vec<At<String>>,
}

/// Reads `[detection]`.
pub fn read(mut section: Section<'_>, report: &mut Report) -> At<Detection> {
    let spot = section.spot.clone();
    let bans = section.take("bans_per_minute");
    let bans = bans.and_then(|value| value.integer_in(1..=AFTER_MAX, 1000, report));
    let unverified = section.take("unverified_per_minute");
    let unverified = unverified.and_then(|value| value.integer_in(1..=AFTER_MAX, 250, report));
    let mut attacks = Rules::new();
    let (mut limits, mut mentions) = (vec![], vec![]);
    for kind in Kind::ALL {
        let title = format!("[detection.{}]", kind.key());
        let table = section.take(kind.key());
        let table = table.and_then(|value| value.table(title.clone(), &title, report));
        if let Some(table) = table {
            let (rule, limit) = read_rule(kind, table, &mut mentions, report);
            attacks.insert(kind, rule);
            limits.extend(limit);
        }
    }
    section.finish(report);
    let bans = bans.and_then(NonZeroU32::new);
    let unverified = unverified.and_then(NonZeroU32::new);
    let value = Detection {
        bans_per_minute: bans.unwrap_or(PER_MINUTE_DEFAULT),
        unverified_per_minute: unverified.unwrap_or(UNVERIFIED_DEFAULT),
        attacks,
        limits,
        mentions,
    };
    At { value, spot }
}

/// What is wrong is reported; the default stands in its place.
fn read_rule(
    kind: Kind,
    mut section: Section<'_>,
    mentions: &mut Vec<At<String>>,
    report: &mut Report,
) -> (Rule, Option<At<LimitSpec>>) {
    let default = Rule::of(kind);
    let above = section.take("above");
    let above =
        above.and_then(|value| value.integer_in(1..=ABOVE_MAX, default.above.get(), report));
    let answer = section.choice("answer", &ANSWERS, report);
    let range = LENGTH_MIN..=LENGTH_MAX;
    let length = section.take("for");
    let length = length.and_then(|value| value.duration_in(&range, "10m", report));
    let limit = section.take("limit");
    let spot = limit.as_ref().map(|limit| limit.spot.clone());
    let limit = limit.and_then(|value| limit::read(value, mentions, report));
    section.finish(report);
    if let Some(spot) = spot.filter(|_| answer != Some(Answer::Limit)) {
        let message = "`limit` is for answer = \"limit\" alone";
        let hint = "write answer = \"limit\" beside it, or remove it";
        report.add(&spot, Problem::new(message, hint));
    }
    let rule = Rule {
        above: above.and_then(NonZeroU32::new).unwrap_or(default.above),
        answer: answer.unwrap_or(default.answer),
        length: length.map_or(default.length, |at| at.value),
        limit: limit.as_ref().map_or(default.limit, |at| at.value.clone()),
    };
    (rule, limit)
}
