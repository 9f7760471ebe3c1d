//! Keys and words that had other names before 1.0. They are accepted with a warning, and nothing
//! behind this knows them.

use std::borrow::Cow;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::report::Spot;
use crate::diagnostic::Problem;

/// A key with another name.
struct Renamed {
    /// The tables that have it, by their present names. `*` is any name, and a list has the name of
    /// its key.
    tables: &'static [&'static [&'static str]],
    old: &'static str,
    new: &'static str,
}

const RENAMED: [Renamed; 11] = [
    renamed(&[&[]], "aggregate", "subnet"),
    renamed(&[&["interface"]], "next", "chain"),
    renamed(&[&["source"]], "inner", "tunnels"),
    renamed(&[&["source"]], "logs", "sliding_logs"),
    renamed(&[&["challenge", "tcp"]], "answers", "answers_per_second"),
    renamed(&[&["challenge", "tcp"]], "way", "method"),
    renamed(
        &[&["detection"]],
        "unverified_per_minute",
        "forgeable_per_minute",
    ),
    renamed(&[&["detection", "*"]], "above", "threshold"),
    renamed(&[&["history"]], "keep", "retention"),
    renamed(&[&["policy", "*", "ban"]], "unverified", "forgeable"),
    renamed(
        &[
            &["policy", "*", "limits"],
            &["subnet", "*"],
            &["node", "limits"],
        ],
        "share",
        "division",
    ),
];

/// The words of lists with another name: where they are, the old one and the new one.
const RENAMED_WORDS: [(&[&str], &str, &str); 1] =
    [(&["upstream", "origins"], "detected", "automatic")];

const fn renamed(
    tables: &'static [&'static [&'static str]],
    old: &'static str,
    new: &'static str,
) -> Renamed {
    Renamed { tables, old, new }
}

/// An old name in a file.
pub struct OldName {
    pub spot: Spot,
    old: &'static str,
    new: &'static str,
    /// Whether the new name is there, too.
    pub is_ambiguous: bool,
    /// Whether it is a value, whose spot includes quotes.
    is_quoted: bool,
}

impl OldName {
    /// Returns the message.
    pub fn problem(&self) -> Problem {
        let Self { old, new, .. } = self;
        if self.is_ambiguous {
            let message = format!("`{old}` is the old name of `{new}`, which is set, too");
            return Problem::new(message, format!("keep `{new}`"));
        }
        let hint =
            format!("write {new}; `rlctl config check --upgrade FILE` rewrites all old names");
        Problem::new(format!("`{old}` is now called `{new}`"), hint).replaced_by((*new).to_owned())
    }
}

/// Gives every key of the file with this index its present name, and returns the old names that it
/// had.
pub fn rename(file: usize, table: &mut DeTable<'_>) -> Vec<OldName> {
    let mut found = Vec::new();
    rename_in(file, &mut Vec::new(), table, &mut found);
    found
}

/// Returns `text` with present names, and each old name with its new one; everything else stays as
/// it is written.
///
/// The text is a valid configuration.
pub fn upgrade(text: &str) -> (String, Vec<(&'static str, &'static str)>) {
    let mut text = text.to_owned();
    let mut renamed = Vec::new();
    // A table with several headers has the place of the first: the next pass finds the next one.
    loop {
        let (table, _) = DeTable::parse_recoverable(&text);
        let mut found = rename(0, &mut table.into_inner());
        // From the end, so that places before stay true.
        found.sort_by_key(|name| std::cmp::Reverse(name.spot.start));
        if found.is_empty() {
            renamed.sort_unstable();
            renamed.dedup();
            return (text, renamed);
        }
        for name in found {
            let inside = usize::from(name.is_quoted);
            let Spot { start, end, .. } = name.spot;
            text.replace_range(start + inside..end - inside, name.new);
            renamed.push((name.old, name.new));
        }
    }
}

fn rename_in(
    file: usize,
    path: &mut Vec<String>,
    table: &mut DeTable<'_>,
    found: &mut Vec<OldName>,
) {
    for Renamed { tables, old, new } in &RENAMED {
        if !tables.iter().any(|pattern| matches(pattern, path)) {
            continue;
        }
        let is_ambiguous = table.contains_key(*new);
        let Some((key, value)) = table.remove_entry(*old) else {
            continue;
        };
        found.push(OldName {
            spot: Spot::new(file, &key.span()),
            old,
            new,
            is_ambiguous,
            is_quoted: false,
        });
        if !is_ambiguous {
            table.insert(Spanned::new(key.span(), Cow::Borrowed(*new)), value);
        }
    }
    for (key, value) in table.iter_mut() {
        path.push(key.get_ref().to_string());
        rename_within(file, path, value, found);
        path.pop();
    }
}

fn rename_within(
    file: usize,
    path: &mut Vec<String>,
    value: &mut Spanned<DeValue<'_>>,
    found: &mut Vec<OldName>,
) {
    let span = value.span();
    match value.get_mut() {
        DeValue::Table(table) => rename_in(file, path, table, found),
        DeValue::Array(items) => {
            for item in items.iter_mut() {
                rename_within(file, path, item, found);
            }
        }
        DeValue::String(text) => {
            let same =
                |(table, old, _): &&(&[&str], &str, &str)| matches(table, path) && text == *old;
            if let Some((_, old, new)) = RENAMED_WORDS.iter().find(same) {
                found.push(OldName {
                    spot: Spot::new(file, &span),
                    old,
                    new,
                    is_ambiguous: false,
                    is_quoted: true,
                });
                *text = Cow::Borrowed(new);
            }
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

fn matches(pattern: &[&str], path: &[String]) -> bool {
    let same = |(part, name): (&&str, &String)| *part == "*" || *part == name;
    pattern.len() == path.len() && pattern.iter().zip(path).all(same)
}
