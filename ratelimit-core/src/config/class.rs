//! A class: `[class.dns-answers]`, or on the spot `match = { protocol = "udp", source_ports = [53] }`.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::{
    report::{At, Report, Spot},
    suggestion,
    table::{Section, Value, is_name},
};
use crate::{
    class::{
        self, Action, BUILT_IN, Class, ClassError, ClassParts, Field, FlagsError, Fragments, Match,
        NumberError, Numbers, SourceShape, TcpFlags, protocol,
    },
    diagnostic::Problem,
    prefix::Prefix,
};

const EXAMPLE: &str = "{ protocol = \"udp\", source_ports = [53] }";

const ACTIONS: [(&str, Action); 2] = [("drop", Action::Drop), ("exempt", Action::Exempt)];

/// A class with a name, and the place of its table.
pub struct NamedClass {
    pub name: String,
    /// As a message names it: `[class.dns-answers]`.
    pub title: String,
    pub spot: Spot,
    /// `None` in place of what is wrong, and reported, and for one that is built in.
    pub class: Option<Class>,
    /// What becomes of its packets, besides limits.
    pub action: Option<Action>,
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
    let title = format!("[class.{name}]");
    let name_spot = spot;
    let mut section = value.table(title.clone(), "[class.dns-answers] above it", report)?;
    let spot = section.spot.clone();
    let action = section.take("action");
    let action = action.and_then(|value| value.choice(&ACTIONS, report));
    let action = action.map(|at| at.value);
    if BUILT_IN.contains(&name.as_str()) {
        return built_in(name, name_spot, title, &section, action, report);
    }
    let class = read(section, report);
    Some(NamedClass {
        name,
        title,
        spot,
        class,
        action,
    })
}

/// Of a built-in class only the action can be said.
fn built_in(
    name: String,
    spot: Spot,
    title: String,
    section: &Section<'_>,
    action: Option<Action>,
    report: &mut Report,
) -> Option<NamedClass> {
    let hint = match action {
        _ if !section.is_empty() => {
            "give the class another name; of this one only `action` can be set"
        }
        None => "write action = \"drop\" or action = \"exempt\", or give the class another name",
        Some(_) if name == "other" => {
            let message = "`other` is what the limits of a policy leave: it has no action";
            report.add(&spot, Problem::new(message, "name a class"));
            return None;
        }
        Some(_) => {
            return Some(NamedClass {
                name,
                title,
                spot,
                class: None,
                action,
            });
        }
    };
    let message = format!("`{name}` is a built-in class");
    report.add(&spot, Problem::new(message, hint));
    None
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
    let mut numbers = |field: Field| {
        let value = section.take(field.key)?;
        Some(read_numbers(value, field, report))
    };
    let (source_ports, destination_ports) = (
        numbers(class::SOURCE_PORTS),
        numbers(class::DESTINATION_PORTS),
    );
    let (icmp_type, icmp_code) = (numbers(class::ICMP_TYPE), numbers(class::ICMP_CODE));
    let (length, ttl) = (numbers(class::LENGTH), numbers(class::TTL));
    let (dscp, vlan) = (numbers(class::DSCP), numbers(class::VLAN));
    let tcp = section.take("tcp");
    let tcp = tcp.map(|value| read_flags(value, report));
    let fragment = section.take("fragment");
    let fragment = fragment.map(|value| read_fragments(value, report));
    let source = section.take("source");
    let source = source.map(|value| Some(value.choice(&SourceShape::WORDS, report)?.value));
    let destination = section.take("destination");
    let destination = destination.map(|value| read_prefixes(value, report));
    section.finish(report);
    let parts = ClassParts {
        protocols: given(protocols)?,
        source_ports: given(source_ports)?,
        destination_ports: given(destination_ports)?,
        tcp: given(tcp)?,
        fragment: given(fragment)?,
        icmp_type: given(icmp_type)?,
        icmp_code: given(icmp_code)?,
        length: given(length)?,
        ttl: given(ttl)?,
        dscp: given(dscp)?,
        vlan: given(vlan)?,
        source: given(source)?,
        destination: given(destination)?,
    };
    let answer = Class::new(parts).map_err(|error| report.add(&spot, explain(&error)));
    answer.ok()
}

fn read_flags(value: Value<'_>, report: &mut Report) -> Option<TcpFlags> {
    let At { value: text, spot } = value.text("tcp = \"syn\"", report)?;
    let flags = text.parse();
    flags
        .map_err(|error| report.add(&spot, explain_flags(&text, &error)))
        .ok()
}

fn explain_flags(text: &str, error: &FlagsError) -> Problem {
    const EXAMPLE: &str = "\"fin,psh,urg / fin,syn,rst,psh,ack,urg\"";
    let hint = match error {
        FlagsError::Unknown(_) => {
            let names: Vec<&str> = TcpFlags::names().collect();
            let hint = suggestion::word(text, &names).hint;
            format!("{hint}, or flags and those that are looked at: {EXAMPLE}")
        }
        FlagsError::NoMask(_) => {
            format!("write the flags that are looked at behind a slash: {EXAMPLE}")
        }
        FlagsError::NotLookedAt(name) => format!("write `{name}` behind the slash, too"),
    };
    Problem::new(error.to_string(), hint)
}

fn read_fragments(value: Value<'_>, report: &mut Report) -> Option<Fragments> {
    if value.is_text() {
        let At { value: word, spot } = value.text("fragment = true", report)?;
        let known = Fragments::WORDS.iter().find(|(text, _)| *text == word);
        if known.is_none() {
            let hint = "write true, false, \"first\", \"later\" or \"tiny\"";
            report.add(
                &spot,
                Problem::new(format!("unknown fragment `{word}`"), hint),
            );
        }
        return known.map(|(_, fragments)| *fragments);
    }
    let is_fragment = value.boolean(report)?.value;
    Some(if is_fragment {
        Fragments::Any
    } else {
        Fragments::None
    })
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

fn read_prefixes(value: Value<'_>, report: &mut Report) -> Option<BTreeSet<Prefix>> {
    const PREFIXES: &str = "destination = [\"198.51.100.0/24\"]";
    let items = if value.is_list() {
        value.list(PREFIXES, report)?
    } else {
        vec![value]
    };
    let count = items.len();
    let prefixes = items.into_iter().filter_map(|item| {
        let At { value: text, spot } = item.text(PREFIXES, report)?;
        let prefix = text.parse::<Prefix>();
        prefix.map_err(|error| report.add(&spot, error.into())).ok()
    });
    let prefixes: Vec<Prefix> = prefixes.collect();
    (prefixes.len() == count).then(|| prefixes.into_iter().collect())
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
        let mut suggested = suggestion::word(&text, &known);
        suggested.hint.push_str(", or a number from 0 to 255");
        let message = format!("there is no protocol `{text}`");
        report.add(&spot, suggested.for_problem(&message));
    }
    protocols
}

fn read_numbers(value: Value<'_>, field: Field, report: &mut Report) -> Option<Numbers> {
    let example = format!("{} = {}", field.key, example(field));
    let items = if value.is_list() {
        value.list(&example, report)?
    } else {
        vec![value]
    };
    let count = items.len();
    let ranges = items
        .into_iter()
        .filter_map(|item| read_range(item, field, &example, report));
    let ranges: Vec<RangeInclusive<u16>> = ranges.collect();
    (ranges.len() == count).then(|| ranges.into_iter().collect())
}

/// What one would write for it.
fn example(field: Field) -> &'static str {
    match field.key {
        "icmp_type" => "[8]",
        "icmp_code" => "[0, \"1-4\"]",
        "length" => "[\"1400-65535\"]",
        "ttl" => "[\"0-20\"]",
        "dscp" => "[46]",
        "vlan" => "[7, \"100-199\"]",
        _ => "[53, \"8000-8100\"]",
    }
}

fn read_range(
    value: Value<'_>,
    field: Field,
    example: &str,
    report: &mut Report,
) -> Option<RangeInclusive<u16>> {
    let At { value: text, spot } = read_word(value, example, report)?;
    let range = field.parse_range(&text);
    range
        .map_err(|error| report.add(&spot, explain_number(field, &error)))
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

fn explain_number(field: Field, error: &NumberError) -> Problem {
    let hint = match error {
        NumberError::Syntax { .. } if field.what == "port" => {
            "write for example 53 or \"8000-8100\"".to_owned()
        }
        NumberError::Syntax { .. } => format!("write for example {}", example(field)),
        NumberError::TooLarge { last, .. } => format!("write a number from 0 to {last}"),
        NumberError::Reversed { first, last } => format!("write \"{last}-{first}\""),
    };
    Problem::new(error.to_string(), hint)
}

fn explain(error: &ClassError) -> Problem {
    let hint = match error {
        ClassError::Everything => {
            "write what its packets have, for example `protocol` or `destination_ports`; a limit without `match` counts every packet"
        }
        ClassError::EmptyList(_) => "write what belongs to the class, or leave the list out",
        ClassError::FullList(_) => "leave it out",
        ClassError::Within { narrow, .. } => {
            let hint = format!("leave {narrow} out, or write it in a class of its own");
            return Problem::new(error.to_string(), hint);
        }
        ClassError::NoPorts(_) => {
            "leave that protocol or the ports out; tcp, udp, sctp, dccp and udplite have ports"
        }
        ClassError::NotTcp(_) => "leave `protocol` out, or write protocol = \"tcp\"",
        ClassError::NotIcmp(_) => {
            "leave `protocol` out, or write protocol = \"icmp\" or \"icmpv6\""
        }
        ClassError::NotInLaterFragments(_) => {
            "leave it out: only the first fragment has a transport header"
        }
        ClassError::TooShort { least } => {
            let hint = format!(
                "write a length of {least} or more, which counts the IP header, or leave it out"
            );
            return Problem::new(error.to_string(), hint);
        }
    };
    Problem::new(error.to_string(), hint)
}
