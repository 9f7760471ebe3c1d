//! A file that is no TOML.

use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};

use super::{
    file::File,
    report::{Report, Spot},
};
use crate::diagnostic::Problem;

/// Parses the file with the index `index`; `None` when it is no TOML, and reported.
pub fn parse<'f>(index: usize, file: &'f File, report: &Report) -> Option<DeTable<'f>> {
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    let table = table.into_inner();
    // One mistake causes several errors; the first one in the file is relevant.
    let start = |error: &&Error| error.span().map_or(usize::MAX, |span| span.start);
    let Some(error) = errors.iter().min_by_key(start) else {
        return Some(table);
    };
    let span = error.span().unwrap_or_default();
    let spot = Spot::new(index, &span);
    let written = file.text.get(span.clone()).unwrap_or_default();
    if error.message() != "duplicate key" {
        report.add(&spot, explain(error.message(), written));
        return None;
    }
    let first = first_header(&file.text, span.start);
    let first = first.or_else(|| last_key_before(&table, written, span.start));
    let what = format!("`{written}` is defined twice");
    match first {
        Some(first) => {
            let first = Spot::new(index, &first);
            report.add_repeated(&spot, &first, &what, "make them one");
        }
        None => report.add(&spot, Problem::new(what, "make them one")),
    }
    None
}

/// toml says behind a comma what it expected.
fn explain(message: &str, written: &str) -> Problem {
    let (message, expected) = message.split_once(", ").unwrap_or((message, ""));
    let problem = |message, hint| Problem::new(format!("syntax error: {message}"), hint);
    match (message, expected) {
        ("string values must be quoted", _) if written.is_empty() => {
            problem("a value is missing", "write it here".to_owned())
        }
        ("string values must be quoted", _) if is_quoted_otherwise(written) => {
            let inner = written.trim_matches(is_quotation_mark);
            let meant = format!("\"{inner}\"");
            let hint = format!("write {meant}, with the quotation marks of a keyboard");
            problem("TOML does not use these quotation marks", hint).replaced_by(meant)
        }
        ("string values must be quoted", _) if written.contains([' ', '"']) => problem(
            "neither a number nor a string",
            "write strings in quotes, and a comma between values".to_owned(),
        ),
        ("string values must be quoted", _) => {
            let hint = format!("write \"{written}\", or a number, true or false");
            problem("neither a number nor a string", hint).replaced_by(format!("\"{written}\""))
        }
        (_, "" | "expected nothing") => problem(message, "remove or correct it".to_owned()),
        _ => problem(message, expected.to_owned()),
    }
}

/// Quotation marks of word processors and web pages.
fn is_quotation_mark(letter: char) -> bool {
    matches!(
        letter,
        '\u{2018}'
            ..='\u{201f}'
                | '\u{ab}'
                | '\u{bb}'
                | '\u{2039}'
                | '\u{203a}'
                | '`'
                | '\u{b4}'
                | '\u{ff02}'
    )
}

fn is_quoted_otherwise(written: &str) -> bool {
    let inner = written.trim_matches(is_quotation_mark);
    let is_one = !inner.contains(['"', '\\', ',', '=']) && !inner.contains(is_quotation_mark);
    is_one && !inner.is_empty() && written.starts_with(is_quotation_mark)
}

/// The first header of the table whose header is at `at`; `None` if there is no header at `at`.
fn first_header(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let header = |line: &str| Some(line[..=line.rfind(']')?].trim().to_owned());
    let wanted = header(text[start..].lines().next()?)?;
    if !wanted.starts_with('[') {
        return None;
    }
    let mut position = 0;
    for line in text[..start].split_inclusive('\n') {
        if header(line).as_ref() == Some(&wanted) {
            let indent = line.len() - line.trim_start().len();
            return Some(position + indent..position + indent + wanted.len());
        }
        position += line.len();
    }
    None
}

/// Returns the position of the last key `name` before `end`.
fn last_key_before(table: &DeTable<'_>, name: &str, end: usize) -> Option<Range<usize>> {
    let below = |value: &DeValue<'_>| match value {
        DeValue::Table(table) => last_key_before(table, name, end),
        DeValue::Array(items) => items
            .iter()
            .filter_map(|item| last_key_before(item.get_ref().as_table()?, name, end))
            .max_by_key(|span| span.start),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => None,
    };
    let here = table.keys().filter(|key| *key.get_ref() == name);
    here.map(toml::Spanned::span)
        .filter(|span| span.start < end)
        .chain(table.values().filter_map(|value| below(value.get_ref())))
        .max_by_key(|span| span.start)
}
