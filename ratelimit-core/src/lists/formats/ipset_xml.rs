//! Sets as XML: `<elem>` of `ipset -o xml`, and `<entry>` of firewalld, which keeps each set in a
//! file. Rich rules of its zones are read too: `<rule><source address="192.0.2.1"/><drop/></rule>`,
//! and each `<alias>` of pfSense (`<address>`) and `OPNsense` (`<content>`).

use jiff::SignedDuration;
use quick_xml::{
    Reader as Xml,
    events::{BytesStart, Event},
};

use super::rule::{Rule, is_name};
use crate::lists::reader::{Reader, Said};

const COMMAND: &str = "ipset save";

/// The entry being read.
#[derive(Default)]
struct Member {
    entry: String,
    timeout: Option<i64>,
    comment: String,
}

/// The alias being read.
#[derive(Default)]
struct Alias<'t> {
    name: String,
    kind: String,
    addresses: &'t str,
    is_disabled: bool,
}

/// Reads all entries.
pub fn read(reader: &mut Reader<'_>) {
    let text = reader.text();
    let mut xml = Xml::from_str(text);
    let mut member = Member::default();
    let mut rule: Option<(Rule<'_>, Option<String>)> = None;
    let mut alias: Option<Alias<'_>> = None;
    // The text of the innermost element, and its start.
    let mut inner = String::new();
    let mut start = 0;
    let mut is_other = false;
    loop {
        let before = place(&xml);
        match xml.read_event() {
            Ok(Event::Start(tag)) => {
                inner.clear();
                start = place(&xml);
                match tag.name().as_ref() {
                    "ipset" => {
                        let name = attribute(&tag, "name").unwrap_or_default();
                        reader.sets.begin(&name, before..before + 1, COMMAND);
                        let kind = attribute(&tag, "type");
                        is_other = kind.is_some_and(|kind| !is_of_addresses(&kind));
                    }
                    "member" => member = Member::default(),
                    "alias" => alias = Some(Alias::default()),
                    "rule" => rule = Some((Rule::default(), None)),
                    name => rule_part(name, &tag, &mut rule),
                }
            }
            Ok(Event::Empty(tag)) => rule_part(tag.name().as_ref(), &tag, &mut rule),
            Ok(Event::Text(part)) => inner.push_str(&part),
            Ok(Event::End(tag)) => {
                let value = std::mem::take(&mut inner);
                let value = value.trim();
                if let Some(alias) = &mut alias {
                    match tag.name().as_ref() {
                        "name" => value.clone_into(&mut alias.name),
                        "type" => value.clone_into(&mut alias.kind),
                        "enabled" => alias.is_disabled = value == "0",
                        "address" | "content" => {
                            alias.addresses = text.get(start..before).unwrap_or_default();
                        }
                        _ => {}
                    }
                }
                match tag.name().as_ref() {
                    "alias" => take_alias(alias.take().unwrap_or_default(), reader),
                    "type" => is_other = !is_of_addresses(value),
                    // In a member of ipset other elements follow.
                    "elem" => value.clone_into(&mut member.entry),
                    "timeout" => member.timeout = value.parse().ok(),
                    "comment" => value.trim_matches('"').clone_into(&mut member.comment),
                    "member" => take(&member, is_other, text, before, reader),
                    "entry" => {
                        let entry = value.to_owned();
                        let member = Member {
                            entry,
                            ..Member::default()
                        };
                        take(&member, is_other, text, before, reader);
                    }
                    "rule" => {
                        let Some((mut rule, source)) = rule.take() else {
                            continue;
                        };
                        if let Some(source) = &source {
                            let sources = part(text, before, source);
                            rule.add(sources.unwrap_or(text.get(..0).unwrap_or_default()));
                        }
                        rule.take(reader);
                    }
                    _ => {}
                }
            }
            Ok(Event::Eof) => return,
            Ok(_) => {}
            Err(error) => {
                let at = usize::try_from(xml.error_position()).unwrap_or_default();
                let problem = crate::diagnostic::Problem::new(
                    error.to_string(),
                    "see whether all of the file was saved",
                );
                return reader.report_at(at..at + 1, problem);
            }
        }
    }
}

fn place(xml: &Xml<&[u8]>) -> usize {
    usize::try_from(xml.buffer_position()).unwrap_or_default()
}

fn is_of_addresses(kind: &str) -> bool {
    matches!(kind, "hash:ip" | "hash:net" | "bitmap:ip")
}

/// Reads an element of a rule.
fn rule_part(name: &str, tag: &BytesStart<'_>, rule: &mut Option<(Rule<'_>, Option<String>)>) {
    let Some((rule, source)) = rule else { return };
    match name {
        "source" => {
            *source = attribute(tag, "address");
            rule.has_conditions |= source.is_none() || attribute(tag, "invert").is_some();
        }
        "drop" | "reject" => rule.drops = true,
        "log" | "audit" | "limit" => {}
        _ => rule.has_conditions = true,
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = tag.try_get_attribute(name).ok().flatten()?;
    Some(found.value.into_owned())
}

/// Finds a value before the end of its element.
fn part<'t>(text: &'t str, end: usize, value: &str) -> Option<&'t str> {
    let before = text.get(..text.floor_char_boundary(end))?;
    // It is one of the last things before that.
    let from = before.floor_char_boundary(before.len().saturating_sub(1000));
    let at = from + before[from..].rfind(value)?;
    before.get(at..at + value.len())
}

fn take(member: &Member, is_other: bool, text: &str, end: usize, reader: &mut Reader<'_>) {
    if is_other || member.entry.contains(',') {
        return reader.skip("of a set of another type");
    }
    let timeout = member.timeout.filter(|seconds| *seconds != 0);
    let said = Said {
        until: timeout.map(|seconds| reader.after(SignedDuration::from_secs(seconds))),
        reason: &member.comment,
        ..Said::default()
    };
    let place = part(text, end, &member.entry).unwrap_or_default();
    reader.take(place, &member.entry, said);
}

fn take_alias<'t>(alias: Alias<'t>, reader: &mut Reader<'t>) {
    let Alias {
        name, addresses, ..
    } = alias;
    if alias.is_disabled {
        return reader.skip("disabled");
    }
    if !matches!(alias.kind.as_str(), "host" | "network" | "") {
        return reader.skip("of a set of another type");
    }
    reader
        .sets
        .begin(&name, reader.span(addresses), "keep only the alias");
    for word in addresses.split_whitespace() {
        if is_name(word) {
            reader.skip("of a rule with a name");
        } else {
            reader.take(word, word, Said::default());
        }
    }
    reader.sets.end();
}
