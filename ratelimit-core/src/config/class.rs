//! A class: `[class.dns-answers]`, or on the spot `match = { protocol = "udp", source_ports = [53]
//! }`.

use std::collections::BTreeSet;

use super::{
    report::{At, Spot},
    suggestion,
    table::{Section, Value, given},
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

/// A class with a name, and the place of its table.
pub struct NamedClass {
    pub name: String,
    /// The name in messages: `[class.dns-answers]`.
    pub title: String,
    pub spot: Spot,
    /// `None` for built-in classes and those with reported errors.
    pub class: Option<Class>,
    /// The action on its packets, besides limits.
    pub action: Option<Action>,
}

/// Reads the classes of a file.
pub fn read_all(section: Section<'_>) -> Vec<NamedClass> {
    let values = section.into_named("class");
    values
        .filter_map(|(name, value)| read_named(name, value))
        .collect()
}

fn read_named(name: At<String>, value: Value<'_>) -> Option<NamedClass> {
    let At { value: name, spot } = name;
    let title = format!("[class.{name}]");
    let mut section = value.table(&title, "[class.dns-answers] above it")?;
    let action = section.choice("action");
    let is_built_in = BUILT_IN.contains(&name.as_str());
    if is_built_in && let Some((message, hint)) = built_in_problem(&name, &section, action) {
        section.report.add(&spot, Problem::new(message, hint));
        return None;
    }
    Some(NamedClass {
        spot: if is_built_in {
            spot
        } else {
            section.spot.clone()
        },
        class: if is_built_in { None } else { read(section) },
        name,
        title,
        action,
    })
}

/// Refuses keys other than `action` for a built-in class.
fn built_in_problem(
    name: &str,
    section: &Section<'_>,
    action: Option<Action>,
) -> Option<(String, &'static str)> {
    let hint = match action {
        _ if !section.is_empty() => {
            "give the class another name; of this one only `action` can be set"
        }
        None => "write action = \"drop\" or action = \"exempt\", or give the class another name",
        Some(_) if name == "other" => {
            let message = "`other` depends on the limits of a policy, so it has no action";
            return Some((message.to_owned(), "name a class"));
        }
        Some(_) => return None,
    };
    Some((format!("`{name}` is a built-in class"), hint))
}

/// Reads which packets a limit counts.
pub fn read_match(value: Value<'_>) -> Option<Match> {
    if value.is_table() {
        return read(value.table("`match`", EXAMPLE)?).map(Match::Inline);
    }
    let name = value.text(&format!("match = \"tcp-syn\", or match = {EXAMPLE}"))?;
    value.report.mention(value.at(name.to_owned()));
    Some(Match::Named(name.to_owned()))
}

/// Reads the conditions of a class.
fn read(mut section: Section<'_>) -> Option<Class> {
    let report = section.report;
    let protocols = section.take("protocol").map(read_protocols);
    let mut numbers = |field: Field| Some(read_numbers(section.take(field.key)?, field));
    let (source_ports, destination_ports) = (
        numbers(class::SOURCE_PORTS),
        numbers(class::DESTINATION_PORTS),
    );
    let (icmp_type, icmp_code) = (numbers(class::ICMP_TYPE), numbers(class::ICMP_CODE));
    let (length, ttl) = (numbers(class::LENGTH), numbers(class::TTL));
    let (dscp, vlan) = (numbers(class::DSCP), numbers(class::VLAN));
    let tcp = section.take("tcp").map(|value| read_flags(&value));
    let fragment = section.take("fragment").map(|value| read_fragments(&value));
    let source = section.take("source").map(|value| read_source(&value));
    let destination = section.take("destination").map(|value| {
        const PREFIXES: &str = "destination = [\"198.51.100.0/24\"]";
        value.each(PREFIXES, |it| it.parsed::<Prefix>(PREFIXES))
    });
    let spot = section.finish();
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
    report.accept(&spot, Class::new(parts).map_err(|error| explain(&error)))
}

/// A class is about packets, and not about who sends them: sources are selected by policies.
fn read_source(value: &Value<'_>) -> Option<SourceShape> {
    let is_of_prefixes = value.len().is_some()
        || value.is_text()
            && value
                .text("")
                .is_some_and(|text| text.parse::<Prefix>().is_ok());
    if is_of_prefixes {
        return value.refuse(
            "a class does not select sources by prefix",
            "remove it, and write a [policy.NAME] with these `sources`; for a drop of all that \
             they send, a [list.NAME] or `rlctl ban`",
        );
    }
    value.choice()
}

fn read_flags(value: &Value<'_>) -> Option<TcpFlags> {
    let text = value.text("tcp = \"syn\"")?;
    let flags = text.parse();
    value.accept(flags.map_err(|error| explain_flags(text, &error)))
}

fn explain_flags(text: &str, error: &FlagsError) -> Problem {
    const EXAMPLE: &str = "\"fin,psh,urg / fin,syn,rst,psh,ack,urg\"";
    let hint = match error {
        FlagsError::Unknown(_) => {
            let names: Vec<&str> = TcpFlags::names().collect();
            let hint = suggestion::word(text, &names).hint;
            format!("{hint}, or flags and those to examine: {EXAMPLE}")
        }
        FlagsError::NoMask(_) => {
            format!("write the flags to examine after a slash: {EXAMPLE}")
        }
        FlagsError::NotLookedAt(name) => format!("write `{name}` after the slash, too"),
    };
    Problem::new(error.to_string(), hint)
}

fn read_fragments(value: &Value<'_>) -> Option<Fragments> {
    if !value.is_text() {
        return value.boolean().map(Fragments::Whether);
    }
    let word = value.text("fragment = true")?;
    let known = Fragments::WORDS.iter().find(|(text, _)| *text == word);
    let unknown = || {
        let hint = "write true, false, \"first\", \"later\" or \"tiny\"";
        Problem::new(format!("unknown fragment `{word}`"), hint)
    };
    value.accept(known.map(|(_, fragments)| *fragments).ok_or_else(unknown))
}

fn read_protocols(value: Value<'_>) -> Option<BTreeSet<u8>> {
    const PROTOCOLS: &str = "protocol = \"udp\", or protocol = [\"tcp\", \"udp\", 47]";
    let read: Vec<Vec<u8>> = value.each(PROTOCOLS, |it| {
        let text = read_word(it, PROTOCOLS)?;
        let unknown = || {
            let known: Vec<&str> = protocol::names().collect();
            let mut suggested = suggestion::word(text, &known);
            suggested.hint.push_str(", or a number from 0 to 255");
            suggested.for_problem(&format!("there is no protocol `{text}`"))
        };
        it.accept(protocol::parse(text).ok_or_else(unknown))
    })?;
    Some(read.into_iter().flatten().collect())
}

fn read_numbers(value: Value<'_>, field: Field) -> Option<Numbers> {
    let example = format!("{} = {}", field.key, example(field));
    value.each(&example, |it| {
        let range = field.parse_range(read_word(it, &example)?);
        it.accept(range.map_err(|error| explain_number(field, &error)))
    })
}

/// Returns an example.
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

/// A number or a text, as it is written.
fn read_word<'v>(value: &'v Value<'_>, example: &str) -> Option<&'v str> {
    value.digits().or_else(|| value.text(example))
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
            "add a condition such as `protocol` or `destination_ports`; a limit without `match` \
             counts all packets"
        }
        ClassError::EmptyList(_) => "list what belongs to the class, or remove the key",
        ClassError::FullList(_) => "remove it",
        ClassError::Within { narrow, .. } => {
            let hint = format!("remove {narrow}, or write it in a class of its own");
            return Problem::new(error.to_string(), hint);
        }
        ClassError::NoPorts(_) => {
            "remove that protocol or the ports; tcp, udp, sctp, dccp and udplite have ports"
        }
        ClassError::NotTcp(_) => "remove `protocol`, or write protocol = \"tcp\"",
        ClassError::NotIcmp(_) => "remove `protocol`, or write protocol = \"icmp\" or \"icmpv6\"",
        ClassError::NotInLaterFragments(_) => {
            "remove it: only the first fragment has a transport header"
        }
        ClassError::TooShort { least } => {
            let hint = format!(
                "write a length of {least} or more, which counts the IP header, or remove it"
            );
            return Problem::new(error.to_string(), hint);
        }
    };
    Problem::new(error.to_string(), hint)
}
