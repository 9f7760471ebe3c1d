//! Decisions of `CrowdSec` as JSON: alerts with decisions, as `cscli decisions list -o json` writes them, or decisions alone, as
//! `cscli decisions import` reads them.

use std::borrow::Cow;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::json;
use crate::{
    lists::reader::{Reader, Said},
    quantity,
};

#[derive(Deserialize)]
struct Alert<'t> {
    #[serde(borrow, default, deserialize_with = "of_go")]
    decisions: Option<Vec<&'t RawValue>>,
}

/// A list that is there; one of nothing may be `null` in Go.
fn of_go<'t, D: Deserializer<'t>>(value: D) -> Result<Option<Vec<&'t RawValue>>, D::Error> {
    let list: Option<Vec<&RawValue>> = Deserialize::deserialize(value)?;
    Ok(Some(list.unwrap_or_default()))
}

/// A decision; what is absent is as `cscli decisions import` takes it.
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
    let text = reader.text();
    if text.trim() == "null" {
        return;
    }
    for item in json::items(text, reader) {
        let item = item.get();
        let alert = item
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

/// Takes a decision that bans addresses; others are left out. `part` is where its value stands.
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
        // A decision that is over has a negative one.
        if text.starts_with('-') {
            return reader.skip("ended already");
        }
        let duration = quantity::parse_duration(text).ok();
        let Some(duration) = duration.and_then(|duration| SignedDuration::try_from(duration).ok())
        else {
            let message = format!("the duration `{}` is no time", short(text));
            return reader.bad(part, message, "write for example 4h or 1h30m");
        };
        said.until = Some(reader.after(duration));
    }
    reader.take(part, &decision.value, said);
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
