//! Lines as shells and firewalls write them: words, and texts in quotes with `\"` in them.

use std::borrow::Cow;

/// The words of a line. A text in quotes is part of its word, with the quotes.
pub fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = None;
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, letter) in line.char_indices() {
        if letter.is_whitespace() && !is_quoted {
            words.extend(start.take().map(|start| &line[start..at]));
            continue;
        }
        start.get_or_insert(at);
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
    }
    words.extend(start.map(|start| &line[start..]));
    words
}

/// A word without its quotes.
pub fn unquoted(word: &str) -> Cow<'_, str> {
    let inner = word.strip_prefix('"').unwrap_or(word);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    if inner.contains('\\') {
        return inner.replace("\\\"", "\"").replace("\\\\", "\\").into();
    }
    inner.into()
}

/// A line without the comment behind `#`, where that begins a word.
pub fn uncommented(line: &str) -> &str {
    let mut is_quoted = false;
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        is_quoted ^= letter == '"' && before != '\\';
        if letter == '#' && !is_quoted && before.is_whitespace() {
            return line[..at].trim();
        }
        before = letter;
    }
    line.trim()
}

/// The name of a program without its folder, with `sudo` and the like before it left out.
pub fn command<'w, 't>(words: &'w [&'t str]) -> (&'t str, &'w [&'t str]) {
    match words {
        ["sudo" | "-", rest @ ..] => command(rest),
        [first, rest @ ..] => (first.rsplit('/').next().unwrap_or(first), rest),
        [] => ("", &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_quotes_is_one_word_with_its_escapes() {
        let line = r#"add bad 192.0.2.1 comment "say \"hi\" \\" x="a b" end"#;
        let expected = [
            "add",
            "bad",
            "192.0.2.1",
            "comment",
            r#""say \"hi\" \\""#,
            "x=\"a b\"",
            "end",
        ];
        assert_eq!(words(line), expected);
        assert_eq!(unquoted(r#""say \"hi\" \\""#), r#"say "hi" \"#);
        assert_eq!(words("  \"open end"), ["\"open end"]);
    }

    #[test]
    fn a_comment_begins_a_word() {
        assert_eq!(uncommented("deny 192.0.2.1 # why"), "deny 192.0.2.1");
        assert_eq!(uncommented("a#b \"# c\" # d"), "a#b \"# c\"");
    }

    #[test]
    fn a_command_is_known_by_its_name() {
        assert_eq!(command(&["sudo", "/usr/sbin/ipset", "add"]).0, "ipset");
    }
}
