//! JSON, of which the places are kept: values are parts of the text that were not looked into yet.

use serde::Deserialize;
use serde_json::{Deserializer, Error, value::RawValue};

use crate::{diagnostic::Problem, lists::reader::Reader};

/// Parses `part` of the text and reports errors at their position.
pub fn parse<'t, T: Deserialize<'t>>(part: &'t str, reader: &mut Reader<'_>) -> Option<T> {
    match serde_json::from_str(part) {
        Ok(value) => Some(value),
        Err(error) => {
            let data = "write a value of the expected type, or remove the entry";
            report(part, &error, data, reader);
            None
        }
    }
}

/// Splits a text into its JSON documents. Tools append them, with or without a line break between
/// them. If the text is not JSON from some place on, the rest is the last one.
pub fn documents(text: &str) -> Vec<&str> {
    let mut stream = Deserializer::from_str(text).into_iter::<&RawValue>();
    let mut documents = Vec::new();
    loop {
        let start = stream.byte_offset();
        match stream.next() {
            Some(Ok(document)) => documents.push(document.get()),
            Some(Err(_)) => {
                documents.push(&text[start..]);
                return documents;
            }
            None => return documents,
        }
    }
}

/// The items of a list, as parts of the text.
pub fn items<'t>(part: &'t str, reader: &mut Reader<'_>) -> Vec<&'t RawValue> {
    parse(part, reader).unwrap_or_default()
}

/// Returns the position of `value` in `line`: the whole line if it was written with escapes.
pub fn part<'t>(line: &'t str, value: &str) -> &'t str {
    if value.is_empty() {
        return line;
    }
    line.find(value)
        .map_or(line, |at| &line[at..at + value.len()])
}

/// Reports an unexpected part of the text. `data` is the message if it is valid JSON.
pub fn report(part: &str, error: &Error, data: &str, reader: &mut Reader<'_>) {
    let message = error.to_string();
    // The place is reported beside it.
    let message = message.split(" at line ").next().unwrap_or_default();
    let start = reader.span(part).start;
    let lines = part
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    let at = start + before + error.column().saturating_sub(1);
    let hint = match error.classify() {
        serde_json::error::Category::Eof => "the text ends too early: check that it is complete",
        serde_json::error::Category::Data => data,
        serde_json::error::Category::Io | serde_json::error::Category::Syntax => "write JSON here",
    };
    reader.report_at(at..at + 1, Problem::new(message, hint));
}
