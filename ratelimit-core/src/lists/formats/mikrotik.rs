//! The output of `export` in `RouterOS`: entries of `/ip firewall address-list`, and rules of
//! `/ip firewall filter` and `raw` that drop.

use std::borrow::Cow;

use jiff::SignedDuration;

use super::{
    rule::Rule,
    words::{unquoted, words},
};
use crate::{
    lists::reader::{Reader, Said},
    quantity,
};

const COMMAND: &str = "/ip firewall address-list export where list=";

/// Whether a line is one of it.
pub fn is_one(line: &str) -> bool {
    let has = |part: &str| line.contains(part);
    line.starts_with("/ip firewall")
        || line.starts_with("/ipv6 firewall")
        || line.starts_with("/ip/firewall")
        || line.starts_with("/ipv6/firewall")
        || line.starts_with("add ") && has("address=") && (has("list=") || has("action="))
        || line.starts_with(":do {") && has("address=")
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    let text = reader.text();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let mut line = Cow::Borrowed(first);
        // A long line continues on the next one, indented by four spaces.
        while let Some(begun) = line.strip_suffix('\\') {
            let next = lines.next().unwrap_or_default().trim_start();
            line = Cow::Owned(format!("{begun}{next}"));
        }
        read_line(first, &line, reader);
    }
}

/// Reads a line, of which the first is all that is shown.
fn read_line(first: &str, line: &str, reader: &mut Reader<'_>) {
    let words = words(line);
    let Some(at) = words
        .iter()
        .position(|word| word.trim_start_matches(['{', '[']) == "add")
    else {
        return;
    };
    let mut rule = Rule::default();
    let mut entry = Command::default();
    let (mut is_rule, mut is_disabled) = (false, false);
    for word in &words[at + 1..] {
        let word = word.trim_end_matches('}');
        let Some((key, value)) = word.split_once('=') else {
            continue;
        };
        let plain = unquoted(value).into_owned();
        match key {
            "address" | "list" if key == "address" => entry.address = plain,
            "list" => entry.list = plain,
            "timeout" => entry.timeout = plain,
            "comment" => rule.reason = plain,
            "disabled" => is_disabled = value == "yes",
            "dynamic" | "creation-time" | "log" | "log-prefix" | "place-before" => {}
            "src-address" => rule.sources.extend(value.split(',')),
            "action" => {
                is_rule = true;
                rule.drops = matches!(value, "drop" | "reject" | "tarpit");
            }
            "chain" => rule.has_conditions |= !matches!(value, "input" | "forward" | "prerouting"),
            "on-error" => break,
            _ => rule.has_conditions = true,
        }
    }
    if is_disabled {
        return reader.skip("disabled");
    }
    if is_rule {
        return rule.take(reader);
    }
    if !entry.address.is_empty() {
        entry.take(first, &rule.reason, reader);
    }
}

/// An entry of a list of addresses.
#[derive(Default)]
struct Command {
    address: String,
    list: String,
    timeout: String,
}

impl Command {
    fn take(&self, line: &str, reason: &str, reader: &mut Reader<'_>) {
        let part = super::json::part(line, &self.address);
        reader.sets.begin(&self.list, reader.span(part), COMMAND);
        if super::rule::is_name(&self.address) {
            return reader.skip("of a rule with a name");
        }
        let mut said = Said {
            reason,
            sloppy: true,
            ..Said::default()
        };
        if !matches!(
            self.timeout.as_str(),
            "" | "0s" | "none-dynamic" | "none-static"
        ) {
            let Some(timeout) = time(&self.timeout) else {
                let hint = "write for example 1d2h30m";
                return reader.bad(line, "the timeout is not a duration", hint);
            };
            said.until = Some(reader.after(timeout));
        }
        reader.take(part, &self.address, said);
    }
}

/// `1w2d3h4m5s`, and `1d02:03:04` with hours, minutes and seconds.
fn time(text: &str) -> Option<SignedDuration> {
    let days = text
        .find(['d', 'w'])
        .map_or(0, |_| text.rfind(['d', 'w']).map_or(0, |at| at + 1));
    let (days, clock) = text.split_at(days);
    let seconds = |text: &str| SignedDuration::try_from(quantity::parse_duration(text).ok()?).ok();
    if !clock.contains(':') {
        return seconds(text);
    }
    let days = if days.is_empty() {
        SignedDuration::ZERO
    } else {
        seconds(days)?
    };
    let parts: Option<Vec<i64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let [hours, minutes, rest] = parts?.try_into().ok()?;
    let clock = hours
        .checked_mul(3600)?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(rest)?;
    days.checked_add(SignedDuration::from_secs(clock))
}
