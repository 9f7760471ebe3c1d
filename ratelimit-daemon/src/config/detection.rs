//! What is found by itself: `[detection]`, and a table in it for each kind of attack that the daemon is to look for:
//! `[detection.syn_flood] above = 500, answer = "ban", for = "10m"`.

use std::{num::NonZeroU32, time::Duration};

use ratelimit_common::strikes::AFTER_MAX;

use super::{
    ban,
    report::{At, Report},
    table::Section,
};
use crate::{
    ban::{LENGTH_MAX, LENGTH_MIN},
    detection::{ABOVE_MAX, Answer, Kind, Rule, Rules},
};

/// The most bans a minute, unless the configuration says otherwise.
pub const PER_MINUTE_DEFAULT: NonZeroU32 = NonZeroU32::new(1000).expect("it is not 0");

const ANSWERS: [(&str, Answer); 2] = [("observe", Answer::Observe), ("ban", Answer::Ban)];

/// `[detection]`.
pub struct Detection {
    /// The most bans a minute.
    pub bans_per_minute: NonZeroU32,
    /// The attacks that are looked for.
    pub attacks: Rules,
}

/// Reads `[detection]`.
pub fn read(mut section: Section<'_>, report: &mut Report) -> At<Detection> {
    let spot = section.spot.clone();
    let bans = section.take("bans_per_minute");
    let bans = bans.and_then(|value| value.integer_in(1..=AFTER_MAX, 1000, report));
    let mut attacks = Rules::new();
    for kind in Kind::ALL {
        let title = format!("[detection.{}]", kind.key());
        let table = section.take(kind.key());
        let table = table.and_then(|value| value.table(title.clone(), &title, report));
        if let Some(table) = table {
            attacks.insert(kind, read_rule(kind, table, report));
        }
    }
    section.finish(report);
    let bans_per_minute = bans.and_then(NonZeroU32::new);
    let value = Detection {
        bans_per_minute: bans_per_minute.unwrap_or(PER_MINUTE_DEFAULT),
        attacks,
    };
    At { value, spot }
}

/// What is wrong is reported; the default stands in its place.
fn read_rule(kind: Kind, mut section: Section<'_>, report: &mut Report) -> Rule {
    let default = Rule::of(kind);
    let above = section.take("above");
    let above =
        above.and_then(|value| value.integer_in(1..=ABOVE_MAX, default.above.get(), report));
    let answer = section.take("answer");
    let answer = answer.and_then(|value| value.choice(&ANSWERS, report));
    let range = LENGTH_MIN..=LENGTH_MAX;
    let length = section.take("for");
    let length: Option<At<Duration>> =
        length.and_then(|value| ban::duration(value, "10m", &range, report));
    section.finish(report);
    Rule {
        above: above.and_then(NonZeroU32::new).unwrap_or(default.above),
        answer: answer.map_or(default.answer, |at| at.value),
        length: length.map_or(default.length, |at| at.value),
    }
}
