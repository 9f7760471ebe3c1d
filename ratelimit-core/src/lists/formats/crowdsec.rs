//! Decisions of `CrowdSec` as JSON: alerts with decisions, as `cscli decisions list -o json` and
//! `cscli alerts inspect -o json` write them, decisions alone, as `cscli decisions import` reads
//! them, or the new ones of a stream of its API.

use std::borrow::Cow;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::json;
use crate::lists::reader::{Reader, Said};

#[derive(Deserialize)]
struct Alert<'t> {
    #[serde(alias = "new", borrow, default, deserialize_with = "of_go")]
    decisions: Option<Vec<&'t RawValue>>,
}

/// A list that is there; one of nothing may be `null` in Go.
fn of_go<'t, D: Deserializer<'t>>(value: D) -> Result<Option<Vec<&'t RawValue>>, D::Error> {
    let list: Option<Vec<&RawValue>> = Deserialize::deserialize(value)?;
    Ok(Some(list.unwrap_or_default()))
}

/// A decision. Missing fields have the defaults of `cscli decisions import`.
#[derive(Deserialize)]
pub struct Decision<'t> {
    #[serde(borrow)]
    pub value: Cow<'t, str>,
    #[serde(borrow)]
    pub duration: Option<Cow<'t, str>>,
    #[serde(borrow)]
    pub scope: Option<Cow<'t, str>>,
    #[serde(rename = "type", borrow)]
    pub kind: Option<Cow<'t, str>>,
    #[serde(alias = "reason", borrow)]
    pub scenario: Option<Cow<'t, str>>,
    #[serde(default)]
    pub simulated: bool,
}

/// Reads all decisions.
pub fn read(reader: &mut Reader<'_>) {
    let mut items = Vec::new();
    for document in json::documents(reader.text()) {
        match document.trim() {
            "null" => {}
            object if object.starts_with('{') => items.push(document),
            _ => items.extend(json::items(document, reader).into_iter().map(RawValue::get)),
        }
    }
    for item in items {
        let alert = item
            .trim_start()
            .starts_with('{')
            .then(|| serde_json::from_str::<Alert<'_>>(item));
        if let Some(Ok(Alert {
            decisions: Some(decisions),
        })) = alert
        {
            for decision in decisions {
                read_one(decision.get(), reader);
            }
        } else {
            read_one(item, reader);
        }
    }
}

fn read_one(part: &str, reader: &mut Reader<'_>) {
    if let Some(decision) = json::parse::<Decision<'_>>(part, reader) {
        let value = json::part(part, &decision.value);
        take(value, &decision, reader);
    }
}

/// Adds a decision that bans addresses; others are skipped. `part` is the position of its value.
pub fn take(part: &str, decision: &Decision<'_>, reader: &mut Reader<'_>) {
    let kind = decision.kind.as_deref().unwrap_or("ban");
    let scope = decision.scope.as_deref().unwrap_or("ip");
    if !scope.eq_ignore_ascii_case("ip") && !scope.eq_ignore_ascii_case("range") {
        return reader.skip(&format!("of the scope {}", short(scope)));
    }
    if kind != "ban" {
        return reader.skip(&format!("{}, not a ban", short(kind)));
    }
    if decision.simulated {
        return reader.skip("simulated");
    }
    let mut said = Said {
        reason: decision.scenario.as_deref().unwrap_or_default(),
        // CrowdSec keeps a range as it was typed.
        sloppy: true,
        ..Said::default()
    };
    if let Some(text) = decision.duration.as_deref() {
        let Some(duration) = go_duration(text) else {
            let message = format!("`{}` is not a duration", short(text));
            return reader.bad(part, message, "write for example 4h or 1h30m");
        };
        // An expired decision has a negative duration.
        said.until = Some(reader.after(duration));
    }
    reader.take(part, &decision.value, said);
}

/// A duration as Go writes it: `-3h4m0.5s`, `512.3µs`, `1.5h`. None is longer than a century.
fn go_duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, f64); 9] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.),
        ("m", 60.),
        ("h", 3600.),
        ("d", 86_400.),
    ];
    const LONGEST: f64 = 100. * 365. * 86_400.;
    let text = text.trim();
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1., rest),
        None => (1., text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut seconds = 0.;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !is_digit(c))?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(is_digit).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds += number.parse::<f64>().ok()? * length;
        rest = behind;
    }
    (text.len() > 1).then(|| SignedDuration::from_secs_f64(sign * seconds.min(LONGEST)))
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        for (text, millis) in [
            ("4h", Some(14_400_000)),
            ("4999h59m53s", Some(17_999_993_000)),
            ("38m55.633568505s", Some(2_335_633)),
            ("512.3µs", Some(0)),
            ("512.3\u{3bc}s", Some(0)),
            ("1500us", Some(1)),
            ("2ms3ns", Some(2)),
            ("-3h4m0.5s", Some(-11_040_500)),
            ("1.5h", Some(5_400_000)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("", None),
            ("-", None),
            ("soon", None),
            ("4", None),
            ("4x", None),
        ] {
            let read = go_duration(text).map(|duration| duration.as_millis());
            assert_eq!(read, millis, "{text}");
        }
        assert!(go_duration(&format!("{}h", "9".repeat(40))).is_some());
    }
}
