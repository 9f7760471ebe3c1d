//! The output of `ipset save`: `create NAME hash:net ...`, and a line `add NAME ENTRY timeout N
//! comment "..."` for each entry; other input of `ipset restore`; and the output of `ipset list`,
//! with entries after `Members:`.
//!
//! Only sets of addresses and prefixes are read, without ports, interfaces or marks.

use std::collections::HashMap;

use jiff::SignedDuration;

use super::words::{command, unquoted, words};
use crate::{
    lists::reader::{Reader, Said},
    prefix::Prefix,
};

const COMMAND: &str = "ipset save";
/// Options with a value, which is of no account here.
const WITH_VALUE: [&str; 7] = [
    "packets", "bytes", "skbmark", "skbprio", "skbqueue", "family", "maxelem",
];
/// Options without one.
const FLAGS: [&str; 4] = ["-exist", "-!", "-quiet", "-q"];

/// The properties in `create`.
#[derive(Clone, Copy, Default)]
struct Set {
    is_other: bool,
    timeout: Option<i64>,
    /// `netmask` of a set of addresses: its entries are networks of that length.
    netmask: Option<u8>,
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    let mut sets: HashMap<&str, Set> = HashMap::new();
    // The set that `ipset list` shows, and whether its entries follow.
    let (mut listed, mut are_members) = ("", false);
    // Shell scripts contain the same lines.
    let is_script = reader.text().starts_with("#!");
    for line in reader.text().lines().map(str::trim) {
        let words = words(line);
        let (first, rest) = command(&words);
        // A line of a script.
        let words = if first == "ipset" { rest } else { &words[..] };
        let is_flag = |word: &&&str| FLAGS.contains(*word);
        let words: Vec<&str> = words
            .iter()
            .filter(|word| !is_flag(word))
            .copied()
            .collect();
        match words.as_slice() {
            ["Name:", name] => (listed, are_members) = (name, false),
            ["Type:", kind] if !are_members => {
                sets.entry(listed).or_default().is_other = !is_of_addresses(kind);
            }
            ["Header:", options @ ..] if !are_members => {
                let set = sets.entry(listed).or_default();
                (set.timeout, set.netmask) = defaults(options);
            }
            ["Members:"] => are_members = true,
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["create" | "-N" | "n", name, kind, options @ ..] => {
                let (timeout, netmask) = defaults(options);
                let is_other = !is_of_addresses(kind);
                sets.insert(
                    name,
                    Set {
                        is_other,
                        timeout,
                        netmask,
                    },
                );
            }
            ["add" | "-A", name, entry, options @ ..] => {
                reader.sets.begin(name, reader.span(name), COMMAND);
                let set = sets.get(name).copied().unwrap_or_default();
                add(entry, options, set, reader);
            }
            ["add" | "-A", ..] => {
                reader.bad(line, "the entry is missing", "write add NAME 192.0.2.1");
            }
            ["del" | "-D", _, entry, ..] => reader.take_off(entry, entry),
            [first, ..] if adds_nothing(first) => {}
            [entry, options @ ..] if are_members => {
                reader.sets.begin(listed, reader.span(entry), COMMAND);
                let set = sets.get(listed).copied().unwrap_or_default();
                add(entry, options, set, reader);
            }
            _ if is_script && first != "ipset" => reader.skip("not an ipset command"),
            [other, ..] => reader.bad(
                other,
                format!("`{other}` is not an ipset command"),
                "remove the line: only create, add and del matter",
            ),
        }
    }
}

/// Whether a line with this first word adds nothing to a set.
fn adds_nothing(first: &str) -> bool {
    const COMMANDS: [&str; 18] = [
        "flush", "-F", "swap", "-W", "destroy", "-X", "rename", "-E", "test", "-T", "save", "-S",
        "list", "-L", "restore", "-R", "COMMIT", "quit",
    ];
    const HEADS: [&str; 6] = [
        "Revision:",
        "Size",
        "References:",
        "Number",
        "Type:",
        "Header:",
    ];
    COMMANDS.contains(&first) || HEADS.contains(&first)
}

fn is_of_addresses(kind: &str) -> bool {
    matches!(
        kind,
        "hash:ip" | "hash:net" | "bitmap:ip" | "iphash" | "nethash" | "iptree" | "ipmap"
    )
}

/// The timeout of entries that say none, and the length of those that have none.
fn defaults(options: &[&str]) -> (Option<i64>, Option<u8>) {
    let value = |name: &str| {
        let at = options.iter().position(|option| *option == name)?;
        options.get(at + 1)
    };
    let timeout = value("timeout").and_then(|text| text.parse().ok());
    (timeout, value("netmask").and_then(|text| text.parse().ok()))
}

fn add(entry: &str, options: &[&str], set: Set, reader: &mut Reader<'_>) {
    // An address with a port, or a pair.
    if set.is_other || entry.contains(',') {
        return reader.skip("of a set of another type");
    }
    let Some(Options { timeout, comment }) = read_options(entry, options, reader) else {
        return;
    };
    let timeout = timeout.or(set.timeout).filter(|seconds| *seconds != 0);
    let reason = unquoted(comment);
    let said = Said {
        until: timeout.map(|seconds| reader.after(SignedDuration::from_secs(seconds))),
        reason: &reason,
        ..Said::default()
    };
    let netmask = set.netmask.filter(|_| !entry.contains(['/', '-']));
    let network = netmask.and_then(|length| Prefix::around(entry.parse().ok()?, length));
    let written = network.map_or_else(|| entry.to_owned(), |network| network.to_string());
    reader.take(entry, &written, said);
}

#[derive(Default)]
struct Options<'t> {
    timeout: Option<i64>,
    comment: &'t str,
}

/// Reads the options of an entry; `None` if errors were reported.
fn read_options<'t>(
    entry: &str,
    words: &[&'t str],
    reader: &mut Reader<'_>,
) -> Option<Options<'t>> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "timeout" => {
                let value = words.next().copied().unwrap_or_default();
                options.timeout = value.parse().ok();
                if options.timeout.is_none() {
                    let part = if value.is_empty() { word } else { value };
                    let hint = "write it in seconds: timeout 600";
                    reader.bad(part, "the timeout is not a number", hint);
                    return None;
                }
            }
            "comment" => options.comment = words.next().copied().unwrap_or_default(),
            "nomatch" => {
                let message = format!("{entry} is an exception from the set (nomatch)");
                let hint = "remove it, and allow it: rlctl allow add";
                reader.bad(entry, message, hint);
                return None;
            }
            option if WITH_VALUE.contains(&option) => drop(words.next()),
            other => {
                let hint = "write timeout SECONDS or comment \"TEXT\"";
                reader.bad(other, format!("unknown option `{other}`"), hint);
                return None;
            }
        }
    }
    Some(options)
}
