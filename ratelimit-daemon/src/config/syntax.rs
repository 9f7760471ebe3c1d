//! A file that is no TOML.

use toml::de::{DeTable, DeValue, Error};

use super::{
    diagnostic::Problem,
    file::File,
    report::{Report, Spot},
};

/// Parses the file with the index `index`; `None` when it is no TOML, and reported.
pub fn parse<'f>(index: usize, file: &'f File, report: &mut Report) -> Option<DeTable<'f>> {
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    let table = table.into_inner();
    // One slip gives several errors, of which the first in the file is the one to look at.
    let start = |error: &&Error| error.span().map_or(usize::MAX, |span| span.start);
    let Some(error) = errors.iter().min_by_key(start) else {
        return Some(table);
    };
    let span = error.span().unwrap_or_default();
    let spot = Spot::new(index, &span);
    let written = file.text.get(span).unwrap_or_default();
    if error.message() == "duplicate key"
        && let Some(first) = last_key_before(&table, written, spot.start)
    {
        let first = Spot::new(index, &first);
        let what = format!("`{written}` is defined twice");
        report.add_repeated(&spot, &first, &what, "make them one");
        return None;
    }
    report.add(&spot, explain(error.message(), written));
    None
}

/// toml says what it expected behind a comma.
fn explain(message: &str, written: &str) -> Problem {
    let (message, expected) = message.split_once(", ").unwrap_or((message, ""));
    let is_word = !written.is_empty() && !written.contains([' ', '"', '\'']);
    let hint = if message == "string values must be quoted" && is_word {
        format!("write \"{written}\"")
    } else if expected.is_empty() {
        "write it as in https://toml.io/en/v1.0.0".to_owned()
    } else {
        expected.to_owned()
    };
    Problem::new(format!("no TOML: {message}"), hint)
}

/// Where the key that is written twice stood before `end`.
fn last_key_before(table: &DeTable<'_>, name: &str, end: usize) -> Option<std::ops::Range<usize>> {
    let below = |value: &DeValue<'_>| match value {
        DeValue::Table(table) => last_key_before(table, name, end),
        DeValue::Array(items) => items
            .iter()
            .filter_map(|item| last_key_before(item.get_ref().as_table()?, name, end))
            .max_by_key(|span| span.start),
        _ => None,
    };
    let here = table.keys().filter(|key| *key.get_ref() == name);
    here.map(toml::Spanned::span)
        .filter(|span| span.start < end)
        .chain(table.values().filter_map(|value| below(value.get_ref())))
        .max_by_key(|span| span.start)
}
