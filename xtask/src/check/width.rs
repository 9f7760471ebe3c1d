//! Finds lines of text files that are longer than 100 columns. `rustfmt` leaves long strings,
//! comments and the arguments of macros as they are.

use std::fs;

use anyhow::{Context, Result};
use regex::Regex;

use crate::workspace;

const COLUMNS: usize = 100;

/// Files that are generated or recorded, or whose rows cannot be broken: patterns of `git`.
const EXCEPT: &[&str] = &[
    "*.json",
    "*.lock",
    "*.snap",
    "*.svg",
    "*/proptest-regressions/*",
    "contrib/man/*",
    "ratelimit-core/src/config/tests/cases/*",
    "ratelimit-core/src/detection/tests/unseen.rs",
    "ratelimit-core/src/lists/tests/samples/*",
];

/// Reports every long line. Returns `true` if there is none.
pub fn is_kept() -> Result<bool> {
    let mut is_kept = true;
    for path in super::tracked(&patterns())? {
        let bytes = fs::read(workspace::root().join(&path)).with_context(|| path.clone())?;
        let Some(text) = text(bytes) else { continue };
        let lines = match path.rsplit_once('.') {
            Some((_, "rs")) => long_lines(&text)?,
            Some((_, "md")) => long_lines_of_markdown(&text),
            _ => long_lines_of_plain(&text),
        };
        for line in lines {
            eprintln!("{path}:{line}: longer than {COLUMNS} columns");
            is_kept = false;
        }
    }
    Ok(is_kept)
}

/// All files without the exceptions.
fn patterns() -> Vec<String> {
    let except = EXCEPT.iter().map(|pattern| format!(":(exclude){pattern}"));
    [":/".to_owned()].into_iter().chain(except).collect()
}

/// The text of a file, unless it is binary.
fn text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// The numbers of the long lines of a file whose lines can all be broken.
fn long_lines_of_plain(text: &str) -> Vec<usize> {
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.chars().count() > COLUMNS)
        .map(|(number, _)| number)
        .collect()
}

/// The numbers of the long lines of a document. Rows of tables, a link or word that is longer by
/// itself, and recorded sessions (`console`) cannot be broken.
fn long_lines_of_markdown(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_session = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            is_session = language == "console";
        }
        let is_broken = line.trim_start().contains(' ') && !line.starts_with('|');
        if is_broken && !is_session && line.chars().count() > COLUMNS {
            found.push(index + 1);
        }
    }
    found
}

/// The numbers of the long lines. Raw strings may be longer: they are recorded output, JSON and
/// regular expressions, which cannot be broken.
fn long_lines(source: &str) -> Result<Vec<usize>> {
    let start = Regex::new(r#"\bb?r(#*)""#)?;
    let mut found = Vec::new();
    // The end of the raw string that is open.
    let mut open: Option<String> = None;
    for (index, line) in source.lines().enumerate() {
        let mut is_raw = open.is_some();
        let mut rest = line;
        loop {
            if let Some(end) = &open {
                let Some((_, after)) = rest.split_once(end.as_str()) else {
                    break;
                };
                rest = after;
            }
            open = start.captures(rest).map(|it| format!("\"{}", &it[1]));
            let Some(begin) = start.find(rest) else { break };
            rest = &rest[begin.end()..];
            is_raw = true;
        }
        if !is_raw && line.chars().count() > COLUMNS {
            found.push(index + 1);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_of_documents_are_found_outside_tables_and_sessions() {
        let long = "x ".repeat(COLUMNS);
        let word = "x".repeat(COLUMNS + 1);
        let text = format!("{long}\n| {long}\n```console\n{long}\n```\n{word}\n```sh\n{long}\n");
        assert_eq!(long_lines_of_markdown(&text), [1, 8]);
    }

    #[test]
    fn long_lines_of_plain_files_are_found_everywhere() {
        let exact = "ü".repeat(COLUMNS);
        assert_eq!(long_lines_of_plain(&format!("{exact}\n{exact}x\n\n")), [2]);
    }

    #[test]
    fn text_is_told_from_binary_data() {
        assert_eq!(text(b"name = 1\n".to_vec()).unwrap(), "name = 1\n");
        assert_eq!(text(b"\0\x01".to_vec()), None);
        assert_eq!(text(vec![0xd4, 0xc3]), None);
    }

    #[test]
    fn long_lines_are_found_outside_raw_strings() {
        let long = "x".repeat(COLUMNS + 1);
        let exact = "ü".repeat(COLUMNS);
        let source = format!(
            "{exact}\n// {long}\nlet a = r#\"{{\n{long}\n\"#;\nlet b = r\"{long}\";\nor\"{long}\n"
        );
        assert_eq!(long_lines(&source).unwrap(), [2, 7]);
    }
}
