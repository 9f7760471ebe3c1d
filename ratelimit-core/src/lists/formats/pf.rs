//! `pf.conf`: the addresses of tables, and the sources of rules that block.

use std::iter::Peekable;

use super::{nft_tokens::Tokens, rule::Rule};
use crate::lists::{
    address,
    reader::{Reader, Said},
};

const COMMAND: &str = "pfctl -T show -t";

type Words<'t> = Peekable<Tokens<'t>>;

/// Whether a line is one of it.
pub fn is_one(line: &str) -> bool {
    let words: Vec<&str> = Tokens::new(line).collect();
    match words.as_slice() {
        ["table", name, ..] => name.starts_with('<'),
        ["block" | "pass", next, ..] => matches!(
            *next,
            "in" | "out"
                | "quick"
                | "log"
                | "on"
                | "from"
                | "all"
                | "drop"
                | "return"
                | "inet"
                | "inet6"
                | "proto"
        ),
        [
            "set",
            "skip" | "block-policy" | "limit" | "optimization" | "state-policy",
            ..,
        ]
        | [
            "scrub" | "antispoof" | "match",
            "in" | "on" | "for" | "quick",
            ..,
        ] => true,
        _ => false,
    }
}

/// Reads all tables and rules.
pub fn read(reader: &mut Reader<'_>) {
    let mut words = Tokens::new(reader.text()).peekable();
    while let Some(word) = words.next() {
        match word {
            "table" => table(&mut words, reader),
            "block" | "pass" => rule(word == "block", &mut words, reader),
            "\n" => {}
            word if address::is_one(word, true) => super::rule::report_alone(word, reader),
            // Another statement.
            _ => while words.next_if(|word| *word != "\n").is_some() {},
        }
    }
}

/// `table <NAME> persist { 192.0.2.5, !192.0.2.6 }`
fn table(words: &mut Words<'_>, reader: &mut Reader<'_>) {
    let name = words.next().unwrap_or_default();
    reader
        .sets
        .begin(name.trim_matches(['<', '>']), reader.span(name), COMMAND);
    while let Some(word) = words.next_if(|word| *word != "\n") {
        match word {
            "file" => reader.skip("of a table that is in another file"),
            "{" => {
                for source in braced(words) {
                    element(source, reader);
                }
            }
            _ => {}
        }
    }
}

fn element(source: &str, reader: &mut Reader<'_>) {
    if let Some(exception) = source.strip_prefix('!') {
        let message = format!("{exception} is an exception from the table");
        let hint = "remove it, and allow it: rlctl allow add";
        return reader.bad(source, message, hint);
    }
    if super::rule::is_name(source) {
        return reader.skip("of a rule with a name");
    }
    let said = Said {
        sloppy: true,
        ..Said::default()
    };
    reader.take(source, source, said);
}

/// Reads the words in braces, which may span lines.
fn braced<'t>(words: &mut Words<'t>) -> Vec<&'t str> {
    let mut inner = Vec::new();
    for word in words.by_ref() {
        match word {
            "}" => break,
            "," | "\n" => {}
            word => inner.push(word),
        }
    }
    inner
}

/// `block [drop] [in] [log] [quick] [inet] from 192.0.2.5 [to any]`
fn rule(drops: bool, words: &mut Words<'_>, reader: &mut Reader<'_>) {
    let mut rule = Rule {
        drops,
        ..Rule::default()
    };
    let mut is_of_table = false;
    while let Some(word) = words.next_if(|word| *word != "\n") {
        match word {
            "drop" | "return" | "return-rst" | "return-icmp" | "in" | "quick" | "log" | "inet"
            | "inet6" | "all" | "any" | "to" => {}
            "from" => match words.next_if(|word| *word != "\n").unwrap_or_default() {
                "{" => braced(words)
                    .into_iter()
                    .for_each(|source| rule.add(source)),
                source => {
                    is_of_table = source.starts_with('<');
                    if !is_of_table {
                        rule.add(source);
                    }
                }
            },
            "label" => drop(words.next()),
            "{" => {
                braced(words);
                rule.has_conditions = true;
            }
            _ => rule.has_conditions = true,
        }
    }
    rule.has_conditions |= rule.sources.iter().any(|source| source.starts_with('!'));
    // The addresses belong to the table.
    if !is_of_table
        || rule
            .sources
            .iter()
            .any(|source| address::is_one(source, true))
    {
        rule.take(reader);
    }
}
