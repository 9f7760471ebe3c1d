//! Lists of every kind that operators have: as the tools write them, with other addresses and cut.

mod blocks;
mod firewalls;
mod json;
mod plain;
mod programs;
mod refused;
mod routers;
mod servers;
mod sets;
mod tables;

use super::*;

/// The format of a text, its entries, and the lines that were left out.
fn check(text: &str, format: Format, expected: &str, skipped: &[(&str, usize)]) {
    let reading = read_text(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(reading.bad.to_string(), "", "{text}");
    assert_eq!(reading.format, format, "{text}");
    assert_eq!(entries(&reading), expected, "{text}");
    let left_out = reading.skipped.iter();
    let left_out: Vec<(&str, usize)> = left_out
        .map(|(why, count)| (why.as_str(), *count))
        .collect();
    assert_eq!(left_out, skipped, "{text}");
}

const CONDITIONS: &str = "of a rule with other conditions";
const NO_DROP: &str = "of a rule that does not drop";
const NO_SOURCE: &str = "of a rule without a source";
const OTHER: &str = "of no address but something else";
const NAME: &str = "of a rule with a name";

/// A text is refused, or one of its lines.
fn refuse(text: &str, expected: &str) {
    let problems = match read_text(text) {
        Ok(reading) => reading.bad.to_string(),
        Err(NoList { error, hint }) => format!("{error}; {hint}"),
    };
    assert!(problems.contains(expected), "{text}\n{problems}");
}
