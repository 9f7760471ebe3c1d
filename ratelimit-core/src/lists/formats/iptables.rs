//! Rules of iptables: what `iptables-save` and `iptables -S` write, commands for it, and the table
//! that `iptables -L -n` shows.
//!
//! Takes the sources of rules that drop or reject everything from them, whatever chain leads
//! there.

use super::{
    rule::Rule,
    words::{command, uncommented, unquoted, words},
};
use crate::lists::{address, reader::Reader};

/// Options with a value that ask for nothing.
const WITHOUT_CONDITION: [&str; 8] = [
    "--reject-with",
    "-t",
    "--table",
    "-w",
    "--wait",
    "-W",
    "--line-numbers",
    "--rsource",
];

/// Whether a line is one of a dump or a command.
pub fn is_one(line: &str) -> bool {
    let words = words(line);
    let (first, rest) = command(&words);
    let is_program = matches!(
        first,
        "iptables"
            | "ip6tables"
            | "iptables-legacy"
            | "iptables-nft"
            | "ip6tables-legacy"
            | "ip6tables-nft"
    );
    let words = if is_program { rest } else { &words };
    match words {
        _ if is_program => true,
        ["*filter" | "*raw" | "*mangle" | "*nat" | "*security"]
        | ["-P", _, "ACCEPT" | "DROP"]
        | ["-N", _] => true,
        ["-A" | "-I", chain, ..] if words.contains(&"-j") => !address::is_one(chain, true),
        ["Chain", _, policy, ..] => policy.starts_with('('),
        [chain, ..] => chain.starts_with(':') && words.len() == 3,
        [] => false,
    }
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    let mut table = "filter";
    // The column of the target, once the header was read.
    let mut target = None;
    for line in reader.text().lines() {
        let line = uncommented(line);
        if let Some(name) = line.strip_prefix('*') {
            table = name;
            continue;
        }
        let words = words(line);
        match words.as_slice() {
            ["Chain", ..] => target = None,
            [] => {}
            words if words.contains(&"target") && words.contains(&"source") => {
                target = words.iter().position(|word| *word == "target");
            }
            words => match target {
                Some(target) => shown(words, target, reader),
                None => written(words, table, reader),
            },
        }
    }
}

/// Parses one rule.
fn written<'t>(words: &[&'t str], table: &str, reader: &mut Reader<'_>) {
    let adds = |word: &&str| matches!(*word, "-A" | "--append" | "-I" | "--insert");
    let Some(at) = words.iter().position(adds) else {
        return;
    };
    let before = &words[..at];
    let named = before
        .iter()
        .position(|word| matches!(*word, "-t" | "--table"));
    let table = named
        .and_then(|at| before.get(at + 1))
        .copied()
        .unwrap_or(table);
    let mut words = words[at + 1..].iter().copied().peekable();
    let chain = words.next().unwrap_or_default();
    // The number at which a rule goes in.
    words.next_if(|word| word.parse::<u32>().is_ok());
    let mut rule: Rule<'t> = Rule {
        // Outgoing packets have other sources, and network address translation drops nothing.
        has_conditions: matches!(chain, "OUTPUT" | "POSTROUTING"),
        ..Rule::default()
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word {
            "-s" | "--source" | "--src" | "--src-range" => rule.add(value()),
            "-j" | "--jump" => rule.drops = drops(value()) && table != "nat",
            "-m" | "--match" => rule.has_conditions |= !matches!(value(), "comment" | "iprange"),
            "-p" | "--protocol" => rule.has_conditions |= !matches!(value(), "all" | "0"),
            "--comment" => rule.reason = unquoted(value()).into_owned(),
            "-c" | "--set-counters" => {
                value();
                value();
            }
            option if WITHOUT_CONDITION.contains(&option) => drop(value()),
            _ => rule.has_conditions = true,
        }
    }
    rule.take(reader);
}

fn drops(target: &str) -> bool {
    matches!(target, "DROP" | "REJECT" | "TARPIT" | "BLACKHOLE" | "DENY")
}

/// Reads a rule as `-L -n` shows it: `DROP all -- 192.0.2.5 0.0.0.0/0 /* why */`.
fn shown<'t>(words: &[&'t str], target: usize, reader: &mut Reader<'_>) {
    let Some((verdict, rest)) = words.get(target..).and_then(<[_]>::split_first) else {
        return;
    };
    let is_end = |word: &&str| matches!(*word, "anywhere") || address::is_one(word, true);
    let Some(source) = rest.iter().position(is_end) else {
        return;
    };
    let is_free = |word: &&str| matches!(*word, "--" | "*" | "all" | "0");
    let (destination, mut behind) = match rest[source + 1..] {
        [destination, ref behind @ ..] => (destination, behind),
        [] => ("anywhere", &[][..]),
    };
    let mut rule: Rule<'t> = Rule {
        drops: drops(verdict),
        ..Rule::default()
    };
    if let ["/*", comment @ ..] = behind {
        let end = comment
            .iter()
            .position(|word| *word == "*/")
            .unwrap_or(comment.len());
        rule.reason = comment[..end].join(" ");
        behind = comment.get(end + 1..).unwrap_or_default();
    }
    let to_all = matches!(destination, "anywhere" | "0.0.0.0/0" | "::/0");
    let rejects = matches!(behind, [] | ["reject-with", _]);
    rule.has_conditions = !to_all || !rejects || !rest[..source].iter().all(is_free);
    rule.add(rest[source]);
    rule.take(reader);
}
