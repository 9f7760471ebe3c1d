//! An address, a prefix or a range a line. What stands behind `#` or `;` is a comment, and the reason of its entry.

use crate::lists::reader::{Reader, Said};

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    for line in reader.text().lines() {
        let (written, comment) = match line.find(['#', ';']) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, ""),
        };
        let written = written.trim();
        if written.is_empty() {
            continue;
        }
        if let Some(rest) = behind(written) {
            let shown: String = rest.chars().take(60).collect();
            let message = format!("`{shown}` stands behind the address");
            let hint = "write one address, prefix or range a line, and comments behind #";
            reader.bad(rest, message, hint);
            continue;
        }
        let said = Said {
            reason: comment.trim_start_matches(['#', ';']),
            ..Said::default()
        };
        reader.take(written, written, said);
    }
}

/// What stands behind the first word, unless the line is a range.
fn behind(written: &str) -> Option<&str> {
    let (_, rest) = written.split_once([' ', '\t'])?;
    let is_range = written.split_once('-').is_some_and(|(first, last)| {
        let one = |text: &str| text.split_whitespace().count() == 1;
        one(first) && one(last)
    });
    (!is_range).then(|| rest.trim_start())
}
