//! What `ipset save` writes: `create NAME hash:net ...`, and a line `add NAME ENTRY timeout N comment "..."` for each entry.
//!
//! Sets of addresses and prefixes are read; a set whose entries have ports, interfaces or marks is something else.

use std::collections::HashMap;

use jiff::SignedDuration;

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
const FLAGS: [&str; 3] = ["-exist", "-!", "nomatch"];

/// What `create` says of a set.
#[derive(Clone, Copy, Default)]
struct Set {
    timeout: Option<i64>,
    /// `netmask` of a set of addresses: its entries are networks of that length.
    netmask: Option<u8>,
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    let mut sets = HashMap::new();
    for line in reader.text().lines().map(str::trim) {
        let words = words(line);
        match words.as_slice() {
            [] | ["flush" | "COMMIT" | "-F", ..] => {}
            [first, ..] if first.starts_with('#') => {}
            ["create" | "-N", name, kind, options @ ..] => {
                if let Some(set) = create(kind, options, reader) {
                    sets.insert(*name, set);
                }
            }
            ["add" | "-A", rest @ ..] => add(line, rest, &sets, reader),
            [other, ..] => reader.bad(
                other,
                format!("`{other}` adds nothing to a set"),
                "keep what `ipset save` writes: create and add",
            ),
        }
    }
}

fn create(kind: &str, options: &[&str], reader: &mut Reader<'_>) -> Option<Set> {
    if !matches!(
        kind,
        "hash:ip" | "hash:net" | "bitmap:ip" | "iphash" | "nethash"
    ) {
        let message = format!("a set of the type {kind} is not one of addresses or prefixes");
        let hint = "save sets of the types hash:ip and hash:net only: ipset save NAME";
        reader.bad(kind, message, hint);
        return None;
    }
    let number = |name: &str| {
        let at = options.iter().position(|option| *option == name)?;
        options.get(at + 1)
    };
    Some(Set {
        timeout: number("timeout").and_then(|text| text.parse().ok()),
        netmask: number("netmask").and_then(|text| text.parse().ok()),
    })
}

fn add(line: &str, words: &[&str], sets: &HashMap<&str, Set>, reader: &mut Reader<'_>) {
    let mut words = words
        .iter()
        .filter(|word| !matches!(**word, "-exist" | "-!"));
    let (Some(name), Some(entry)) = (words.next(), words.next()) else {
        return reader.bad(line, "the entry is missing", "write add NAME 192.0.2.1");
    };
    let options: Vec<&str> = words.copied().collect();
    let set = sets.get(name).copied().unwrap_or_default();
    let Some(Options { timeout, comment }) = read_options(entry, &options, reader) else {
        return;
    };
    let timeout = timeout.or(set.timeout).filter(|seconds| *seconds != 0);
    reader.sets.begin(name, reader.span(name), COMMAND);
    let said = Said {
        until: timeout.map(|seconds| reader.after(SignedDuration::from_secs(seconds))),
        reason: comment,
        ..Said::default()
    };
    let netmask = set.netmask.filter(|_| !entry.contains(['/', '-']));
    let network = netmask.and_then(|length| Prefix::around(entry.parse().ok()?, length));
    let written = network.map_or_else(|| (*entry).to_owned(), |network| network.to_string());
    reader.take(entry, &written, said);
}

#[derive(Default)]
struct Options<'t> {
    timeout: Option<i64>,
    comment: &'t str,
}

/// What stands behind an entry; `None` where it is wrong, and reported.
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
                    reader.bad(part, "the timeout is no number", hint);
                    return None;
                }
            }
            "comment" => {
                options.comment = words.next().copied().unwrap_or_default().trim_matches('"');
            }
            "nomatch" => {
                let message = format!("{entry} is an exception from the set (nomatch)");
                let hint = "take it out, and let it through: rlctl allow add";
                reader.bad(entry, message, hint);
                return None;
            }
            option if WITH_VALUE.contains(&option) => drop(words.next()),
            option if FLAGS.contains(&option) => {}
            other => {
                let hint = "write timeout SECONDS or comment \"TEXT\"";
                reader.bad(other, format!("unknown option `{other}`"), hint);
                return None;
            }
        }
    }
    Some(options)
}

/// The words of a line; a text in quotes is one, with them.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map_or(rest.len(), |at| at + 2),
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}
