//! A class: `[class.dns-answers]`, or on the spot `match = { protocol = "udp", source_ports = [53] }`.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::{
    report::{At, Report, Spot},
    suggestion,
    table::{Section, Value, is_name},
};
use crate::{
    class::{
        BUILT_IN, Class, ClassError, ClassParts, Match, PortError, Ports, TcpFlags, parse_ports,
        protocol,
    },
    diagnostic::Problem,
};

const EXAMPLE: &str = "{ protocol = \"udp\", source_ports = [53] }";

const TCP_FLAGS: [(&str, TcpFlags); 2] = [("syn", TcpFlags::Syn), ("invalid", TcpFlags::Invalid)];

/// A class with a name, and the place of its table.
pub struct NamedClass {
    pub name: String,
    /// As a message names it: `[class.dns-answers]`.
    pub title: String,
    pub spot: Spot,
    /// `None` in place of what is wrong, and reported.
    pub class: Option<Class>,
}

/// Reads the classes of a file.
pub fn read_all(section: Section<'_>, report: &mut Report) -> Vec<NamedClass> {
    let values = section.into_values().into_iter();
    values
        .filter_map(|(name, value)| read_named(name, value, report))
        .collect()
}

fn read_named(name: At<String>, value: Value<'_>, report: &mut Report) -> Option<NamedClass> {
    let At { value: name, spot } = name;
    if !is_name(&name) {
        let message = format!("`{name}` is no name for a class");
        report.add(
            &spot,
            Problem::new(message, "write letters, digits, `-` and `_`"),
        );
    }
    if BUILT_IN.contains(&name.as_str()) {
        let message = format!("`{name}` is a built-in class");
        report.add(&spot, Problem::new(message, "give the class another name"));
    }
    let title = format!("[class.{name}]");
    let section = value.table(title.clone(), "[class.dns-answers] above it", report)?;
    let spot = section.spot.clone();
    let class = read(section, report);
    Some(NamedClass {
        name,
        title,
        spot,
        class,
    })
}

/// Reads which packets a limit counts. A name is added to `mentions`: whether a class has it is not known yet.
pub fn read_match(
    value: Value<'_>,
    mentions: &mut Vec<At<String>>,
    report: &mut Report,
) -> Option<Match> {
    if value.is_table() {
        let section = value.table("`match`".to_owned(), EXAMPLE, report)?;
        return read(section, report).map(Match::Inline);
    }
    let name = value.text(
        &format!("match = \"tcp-syn\", or match = {EXAMPLE}"),
        report,
    )?;
    mentions.push(name.clone());
    Some(Match::Named(name.value))
}

/// Reads what a class says of its packets.
fn read(mut section: Section<'_>, report: &mut Report) -> Option<Class> {
    let spot = section.spot.clone();
    let protocols = section.take("protocol");
    let protocols = protocols.map(|value| read_protocols(value, report));
    let mut ports = |key| {
        let value = section.take(key)?;
        Some(read_ports(
            value,
            &format!("{key} = [53, \"8000-8100\"]"),
            report,
        ))
    };
    let (source_ports, destination_ports) = (ports("source_ports"), ports("destination_ports"));
    let tcp = section.take("tcp");
    let tcp = tcp.map(|value| value.choice(&TCP_FLAGS, report));
    let fragment = section.take("fragment");
    let fragment = fragment.map(|value| value.boolean(report));
    section.finish(report);
    let parts = ClassParts {
        protocols: given(protocols)?,
        source_ports: given(source_ports)?,
        destination_ports: given(destination_ports)?,
        tcp: given(tcp)?.map(|at| at.value),
        fragment: given(fragment)?.map(|at| at.value),
    };
    let answer = Class::new(parts).map_err(|error| report.add(&spot, explain(&error)));
    answer.ok()
}

/// What is given, or not; `None` when it is wrong.
#[expect(clippy::option_option, reason = "wrong is not the same as not given")]
fn given<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(None) => None,
        Some(value) => Some(value),
    }
}

fn read_protocols(value: Value<'_>, report: &mut Report) -> Option<BTreeSet<u8>> {
    const PROTOCOLS: &str = "protocol = \"udp\", or protocol = [\"tcp\", \"udp\", 47]";
    let items = if value.is_list() {
        value.list(PROTOCOLS, report)?
    } else {
        vec![value]
    };
    let count = items.len();
    let read = items
        .into_iter()
        .filter_map(|item| read_protocol(item, PROTOCOLS, report));
    let read: Vec<Vec<u8>> = read.collect();
    (read.len() == count).then(|| read.into_iter().flatten().collect())
}

fn read_protocol(value: Value<'_>, example: &str, report: &mut Report) -> Option<Vec<u8>> {
    let At { value: text, spot } = read_word(value, example, report)?;
    let protocols = protocol::parse(&text);
    if protocols.is_none() {
        let known: Vec<&str> = protocol::names().collect();
        let hint = suggestion::word(&text, &known);
        let hint = format!("{hint}, or a number from 0 to 255");
        report.add(
            &spot,
            Problem::new(format!("there is no protocol `{text}`"), hint),
        );
    }
    protocols
}

fn read_ports(value: Value<'_>, example: &str, report: &mut Report) -> Option<Ports> {
    let items = value.list(example, report)?;
    let count = items.len();
    let ranges = items
        .into_iter()
        .filter_map(|item| read_range(item, example, report));
    let ranges: Vec<RangeInclusive<u16>> = ranges.collect();
    (ranges.len() == count).then(|| ranges.into_iter().collect())
}

fn read_range(value: Value<'_>, example: &str, report: &mut Report) -> Option<RangeInclusive<u16>> {
    let At { value: text, spot } = read_word(value, example, report)?;
    let range = parse_ports(&text);
    range
        .map_err(|error| report.add(&spot, explain_port(&error)))
        .ok()
}

/// A number or a text, as it is written.
fn read_word(value: Value<'_>, example: &str, report: &mut Report) -> Option<At<String>> {
    if let Some(digits) = value.digits() {
        return Some(At {
            value: digits.to_owned(),
            spot: value.spot,
        });
    }
    value.text(example, report)
}

fn explain_port(error: &PortError) -> Problem {
    let hint = match error {
        PortError::Syntax(_) => "write for example 53 or \"8000-8100\"".to_owned(),
        PortError::TooLarge(_) => "write a number from 0 to 65535".to_owned(),
        PortError::Reversed { first, last } => format!("write \"{last}-{first}\""),
    };
    Problem::new(error.to_string(), hint)
}

fn explain(error: &ClassError) -> Problem {
    let hint = match error {
        ClassError::Everything => {
            "write `protocol`, `source_ports`, `destination_ports`, `tcp` or `fragment`; a limit without `match` counts every packet"
        }
        ClassError::EmptyList(_) => "write what belongs to the class, or leave the list out",
        ClassError::NoPorts(_) => {
            "leave that protocol or the ports out; tcp, udp, sctp, dccp and udplite have ports"
        }
        ClassError::NotTcp(_) => "leave `protocol` out, or write protocol = \"tcp\"",
    };
    Problem::new(error.to_string(), hint)
}
