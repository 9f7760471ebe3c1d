//! Rules of ufw: the table that `ufw status` shows, and commands such as `ufw deny from 192.0.2.5`.

use super::{
    rule::Rule,
    words::{command, uncommented, words},
};
use crate::lists::reader::Reader;

/// Whether a line is one of its own.
pub fn is_one(line: &str) -> bool {
    let words = words(line);
    line.starts_with("Status: active")
        || line.starts_with("Status: inactive")
        || command(&words).0 == "ufw"
        || matches!(words.as_slice(), ["To", "Action", "From"])
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    for line in reader.text().lines() {
        let (line, comment) = line.split_once(" # ").unwrap_or((uncommented(line), ""));
        let words = words(line);
        let (first, rest) = command(&words);
        if first == "ufw" {
            written(rest, reader);
        } else {
            shown(line, comment, reader);
        }
    }
}

/// `ufw [insert 1] deny [in] from 192.0.2.5 [to any]`
fn written<'t>(words: &[&'t str], reader: &mut Reader<'_>) {
    let is_verb = |word: &&str| matches!(*word, "deny" | "reject" | "allow" | "limit");
    let Some(at) = words.iter().position(is_verb) else {
        return;
    };
    let mut rule: Rule<'t> = Rule {
        drops: matches!(words[at], "deny" | "reject"),
        has_conditions: words[..at].contains(&"route") || words[..at].contains(&"delete"),
        ..Rule::default()
    };
    let mut words = words[at + 1..].iter().copied();
    while let Some(word) = words.next() {
        match word {
            "in" | "log" | "log-all" => {}
            "from" => rule.add(words.next().unwrap_or_default()),
            "to" => rule.has_conditions |= words.next() != Some("any"),
            "comment" => {
                let comment: Vec<&str> = words.by_ref().collect();
                comment
                    .join(" ")
                    .trim_matches(['"', '\''])
                    .clone_into(&mut rule.reason);
            }
            _ => rule.has_conditions = true,
        }
    }
    rule.take(reader);
}

/// `[ 1] Anywhere                   DENY IN     192.0.2.5                  # why`
fn shown(line: &str, comment: &str, reader: &mut Reader<'_>) {
    let line = match line.trim_start().strip_prefix('[') {
        Some(numbered) => numbered.split_once(']').map_or(numbered, |(_, rest)| rest),
        None => line,
    };
    let mut columns = line
        .split("  ")
        .map(str::trim)
        .filter(|column| !column.is_empty());
    let (Some(to), Some(action), Some(from)) = (columns.next(), columns.next(), columns.next())
    else {
        return;
    };
    let mut action = action.split(' ');
    let (verb, direction) = (
        action.next().unwrap_or_default(),
        action.next().unwrap_or("IN"),
    );
    if !matches!(verb, "DENY" | "REJECT" | "ALLOW" | "LIMIT") {
        return;
    }
    let from = from.strip_suffix(" (v6)").unwrap_or(from);
    let mut rule = Rule {
        drops: matches!(verb, "DENY" | "REJECT"),
        has_conditions: !matches!(to, "Anywhere" | "Anywhere (v6)")
            || direction != "IN"
            || from.contains(' '),
        reason: comment.trim().to_owned(),
        ..Rule::default()
    };
    rule.add(from);
    rule.take(reader);
}
