//! Finds lines of Rust that are longer than 100 columns. `rustfmt` leaves long strings, comments
//! and the arguments of macros as they are.

use anyhow::Result;
use regex::Regex;

const COLUMNS: usize = 100;

/// Files with a table that is read row by row.
const TABLES: &[&str] = &["ratelimit-core/src/detection/tests/unseen.rs"];

/// Reports every long line. Returns whether there is none.
pub fn is_kept() -> Result<bool> {
    let mut is_kept = true;
    for path in super::tracked("*.rs")? {
        if TABLES.contains(&path.as_str()) {
            continue;
        }
        for line in long_lines(&super::read(&path)?)? {
            eprintln!("{path}:{line}: longer than {COLUMNS} columns");
            is_kept = false;
        }
    }
    Ok(is_kept)
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
    fn long_lines_are_found_outside_raw_strings() {
        let long = "x".repeat(COLUMNS + 1);
        let exact = "ü".repeat(COLUMNS);
        let source = format!(
            "{exact}\n// {long}\nlet a = r#\"{{\n{long}\n\"#;\nlet b = r\"{long}\";\nor\"{long}\n"
        );
        assert_eq!(long_lines(&source).unwrap(), [2, 7]);
    }
}
