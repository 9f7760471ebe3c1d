//! `[challenge.tcp]`: when sources have to prove that they receive what is sent to them.

use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use ratelimit_common::new_sources::COUNT_MAX;

use super::{
    report::{At, Report},
    table::{Section, Value},
};
use crate::{
    challenge::{TcpChallenge, Way},
    diagnostic::Problem,
    quantity,
};

const WHEN_EXAMPLE: &str = "when = \"over 5_000 syn/s\"";
const WHEN_HINT: &str = "write when = \"over 5_000 syn/s\", \"always\" or \"never\"";

const LASTS: Duration = Duration::from_mins(10);
const LASTS_EXAMPLE: &str = "for = \"10m\"";
const LASTS_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);

const ANSWERS: u32 = 1_000_000;

const WAY_EXAMPLE: &str = "way = \"rst\"";
const WAY_HINT: &str = "write way = \"rst\" or \"syncookie\"";

/// When sources are challenged.
#[derive(Clone, Copy)]
enum When {
    Never,
    Always,
    Over(NonZeroU32),
}

/// Reads `[challenge]`; `None` in it where nobody is challenged, or where something is wrong, and reported.
pub(super) fn read(mut section: Section<'_>, report: &mut Report) -> At<Option<TcpChallenge>> {
    let tcp = section.take("tcp");
    if tcp.is_none() {
        section.lacks("tcp", "write [challenge.tcp]", report);
    }
    let tcp =
        tcp.and_then(|tcp| tcp.table("[challenge.tcp]".to_owned(), "[challenge.tcp]", report));
    let spot = section.spot.clone();
    section.finish(report);
    let value = tcp.and_then(|tcp| read_tcp(tcp, report));
    At { value, spot }
}

fn read_tcp(mut section: Section<'_>, report: &mut Report) -> Option<TcpChallenge> {
    let when = section.take("when");
    if when.is_none() {
        section.lacks("when", WHEN_HINT, report);
    }
    let when = when.and_then(|value| read_when(value, report));
    let lasts = section.take("for");
    let lasts = lasts.map_or(Some(LASTS), |value| read_lasts(value, report));
    let answers = section.take("answers");
    let answers = answers.map_or(Some(ANSWERS), |value| {
        value.integer_in(1..=COUNT_MAX, ANSWERS, report)
    });
    let way = section.take("way");
    let way = way.map_or(Some(Way::Rst), |value| read_way(value, report));
    section.finish(report);
    let over = match when? {
        When::Never => return None,
        When::Always => None,
        When::Over(over) => Some(over),
    };
    Some(TcpChallenge {
        over,
        lasts: lasts?,
        answers: NonZeroU32::new(answers?)?,
        way: way?,
    })
}

fn read_when(value: Value<'_>, report: &mut Report) -> Option<When> {
    let At { value, spot } = value.text(WHEN_EXAMPLE, report)?;
    match value.as_str() {
        "always" => return Some(When::Always),
        "never" => return Some(When::Never),
        _ => {}
    }
    let rate = value
        .strip_prefix("over ")
        .and_then(|rate| rate.strip_suffix(" syn/s"));
    let Some(digits) = rate.map(|rate| rate.replace('_', "")) else {
        let message = format!("`when` is `{value}`, which says no time");
        report.add(&spot, Problem::new(message, WHEN_HINT));
        return None;
    };
    let over = digits.parse().ok().and_then(NonZeroU32::new);
    let over = over.filter(|over| over.get() <= COUNT_MAX);
    if over.is_none() {
        let message = format!("`when` is `{value}`: {digits} is out of range");
        let hint = format!("write a number from 1 to {COUNT_MAX}, or \"always\"");
        report.add(&spot, Problem::new(message, hint));
    }
    over.map(When::Over)
}

fn read_way(value: Value<'_>, report: &mut Report) -> Option<Way> {
    let At { value, spot } = value.text(WAY_EXAMPLE, report)?;
    let way = Way::ALL.into_iter().find(|way| way.name() == value);
    if way.is_none() {
        let message = format!("`way` is `{value}`, which is none");
        report.add(&spot, Problem::new(message, WAY_HINT));
    }
    way
}

fn read_lasts(value: Value<'_>, report: &mut Report) -> Option<Duration> {
    let At { value, spot } = value.text(LASTS_EXAMPLE, report)?;
    let lasts = match quantity::parse_duration(&value) {
        Ok(lasts) => lasts,
        Err(error) => {
            report.add(&spot, error.into());
            return None;
        }
    };
    if LASTS_RANGE.contains(&lasts) {
        return Some(lasts);
    }
    let message = format!("`for` is {value}, which is not between 1s and 24h");
    report.add(
        &spot,
        Problem::new(message, format!("write {LASTS_EXAMPLE}")),
    );
    None
}
