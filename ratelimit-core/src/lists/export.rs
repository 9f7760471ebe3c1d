//! Entries as lines of text: JSON for all that is known, plain for other tools.

use super::export_line::Line;

/// A line of JSON, without its end.
///
/// # Panics
///
/// Never: lines have string keys.
pub fn json_line(line: &Line<'_>) -> String {
    serde_json::to_string(line).expect("lines have string keys")
}

/// A prefix with its reason as a comment. A reason of several lines becomes one.
pub fn plain_line(line: &Line<'_>) -> String {
    match line.reason.as_deref() {
        Some(reason) => format!(
            "{} # {}",
            line.prefix,
            reason.replace(char::is_control, " ")
        ),
        None => line.prefix.to_string(),
    }
}
