//! Sets of nft: `nft list set`, `nft list ruleset`, and input of `nft -f`. Elements are in
//! `elements = { ... }` of a set, in `add element ... { ... }`, and in `define NAME = { ... }`.
//! Sets of other types are skipped. Rules contribute the sources that they drop regardless of other
//! properties of the packets.
//!
//! Input of `nft -f` has no JSON form, so both forms are read.

use std::iter::Peekable;

use jiff::SignedDuration;

use super::{nft_tokens::Tokens, rule::Rule};
use crate::{
    lists::reader::{Reader, Said},
    quantity,
};

const COMMAND: &str = "nft list set FAMILY TABLE";

type Words<'t> = Peekable<Tokens<'t>>;

/// Reads all sets.
pub fn read(reader: &mut Reader<'_>) {
    let mut words = Tokens::new(reader.text()).peekable();
    let mut name = "";
    let mut of_addresses = true;
    let mut before: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word, "\n" | ";" | "{" | "}") {
            before.clear();
        }
        match word {
            "saddr" => rule(&before, &mut words, reader),
            "set" | "map" => {
                name = words.next().unwrap_or_default();
                of_addresses = word == "set";
                reader.sets.begin(name, reader.span(name), COMMAND);
            }
            "type" | "typeof" => {
                let kind: Vec<&str> = line(&mut words).collect();
                of_addresses &= is_of_addresses(&kind);
            }
            "elements" => elements(word, name, of_addresses, &mut words, reader),
            "define" => {
                name = words.next().unwrap_or_default();
                reader.sets.begin(name, reader.span(name), COMMAND);
                let value = words.next_if_eq(&"=").and_then(|_| words.peek().copied());
                if value == Some("{") {
                    elements(word, name, true, &mut words, reader);
                }
            }
            "element" => {
                let target: Vec<&str> =
                    std::iter::from_fn(|| words.next_if(|word| *word != "{" && *word != "\n"))
                        .collect();
                name = target.last().copied().unwrap_or(word);
                reader.sets.begin(name, reader.span(name), COMMAND);
                elements(word, name, true, &mut words, reader);
            }
            "\n" | ";" | "{" | "}" => {}
            word => before.push(word),
        }
    }
}

/// Reads a rule from its source on: `ip saddr { 192.0.2.1, 192.0.2.2 } counter drop`, in a chain or
/// after `add rule FAMILY TABLE CHAIN`.
fn rule(before: &[&str], words: &mut Words<'_>, reader: &mut Reader<'_>) {
    let mut rule = Rule {
        has_conditions: !matches!(before, [_]) && before.iter().all(|word| *word != "rule"),
        ..Rule::default()
    };
    if words.next_if_eq(&"{").is_some() {
        let inner = std::iter::from_fn(|| words.next_if(|word| *word != "}"));
        inner.for_each(|source| rule.add(source.trim_matches(['\n', ','])));
        words.next();
    } else if words.peek().is_some_and(|word| word.starts_with('@')) {
        // The set has them.
        return line(words).for_each(drop);
    } else {
        rule.add(words.next().unwrap_or_default());
    }
    let mut words = line(words);
    while let Some(word) = words.next() {
        match word {
            "drop" | "reject" => rule.drops = true,
            "counter" | "log" | "with" | "icmp" | "icmpx" | "tcp" | "reset" | "type" => {}
            "packets" | "bytes" | "prefix" | "comment" => drop(words.next()),
            word => rule.has_conditions |= !rule.drops || word == "!=",
        }
    }
    reader.sets.end();
    rule.take(reader);
}

/// The words up to the end of the line.
fn line<'w, 't>(words: &'w mut Words<'t>) -> impl Iterator<Item = &'t str> + use<'w, 't> {
    std::iter::from_fn(|| words.next_if(|word| !matches!(*word, "\n" | ";" | "}")))
}

fn is_of_addresses(kind: &[&str]) -> bool {
    matches!(
        kind,
        ["ipv4_addr" | "ipv6_addr"] | ["ip" | "ip6", "saddr" | "daddr"]
    )
}

/// Reads elements in braces.
fn elements<'t>(
    from: &str,
    set: &str,
    of_addresses: bool,
    words: &mut Words<'t>,
    reader: &mut Reader<'_>,
) {
    words.next_if_eq(&"=");
    while words.next_if_eq(&"\n").is_some() {}
    if words.next_if_eq(&"{").is_none() {
        let message = format!("there are no elements of `{set}` here");
        let hint = "write them in braces: { 192.0.2.1, 192.0.2.0/24 }";
        return reader.bad(from, message, hint);
    }
    let mut element: Vec<&'t str> = Vec::new();
    loop {
        match words.next() {
            Some(end @ ("," | "}")) => {
                if !element.is_empty() && of_addresses {
                    take(&element, reader);
                } else if !element.is_empty() {
                    reader.skip("of a set of another type");
                }
                element.clear();
                if end == "}" {
                    return;
                }
            }
            Some("\n") => {}
            Some(word) => element.push(word),
            None => {
                let message = format!("the elements of `{set}` have no end");
                let hint = "check that the text is complete: a } is missing";
                return reader.bad(from, message, hint);
            }
        }
    }
}

/// Whether a word says something of an element that matters here.
fn is_about(word: &str) -> bool {
    matches!(word, "timeout" | "expires" | "comment" | "counter")
}

/// Adds an element: an address, a prefix or a range, with its options.
fn take(words: &[&str], reader: &mut Reader<'_>) {
    // `10.0.0.1 - 10.0.0.7` is one word to nft.
    let (written, options) = match words {
        [first, "-", last, options @ ..] => (format!("{first}-{last}"), options),
        [first, options @ ..] => ((*first).to_owned(), options),
        [] => return,
    };
    let mut said = Said::default();
    let mut timeout = None;
    let mut options = options.iter();
    while let Some(word) = options.next() {
        match *word {
            // The remaining time takes precedence over the original timeout.
            "timeout" | "expires" => {
                let value = options.next().copied().unwrap_or_default();
                let Ok(duration) = quantity::parse_duration(value) else {
                    let part = if value.is_empty() { word } else { value };
                    let hint = "write for example 1d2h30m";
                    return reader.bad(part, format!("the {word} is not a duration"), hint);
                };
                timeout = SignedDuration::try_from(duration).ok();
            }
            "comment" => {
                let comment = options.next().copied().unwrap_or_default();
                said.reason = comment.trim_matches('"');
            }
            "counter" => {}
            "packets" | "bytes" => drop(options.next()),
            // State of an element in a dynamic set: `limit rate over 10/second burst 5 packets`.
            "limit" | "quota" | "ct" | "last" => {
                let behind = options.as_slice().iter();
                let counted = behind.take_while(|word| !is_about(word)).count();
                options = options.as_slice()[counted..].iter();
            }
            other => {
                let message = format!("unexpected `{other}` after the address");
                return reader.bad(
                    other,
                    message,
                    "keep sets of the type ipv4_addr or ipv6_addr, with timeout, expires and \
                     comment",
                );
            }
        }
    }
    said.until = timeout.map(|timeout| reader.after(timeout));
    reader.take(words[0], &written, said);
}
