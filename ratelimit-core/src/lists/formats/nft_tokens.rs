//! The words of nft's language and others with braces: names, texts in quotes, and single signs.
//! Comments begin with `#` or `//`, or are in `/* */`.

/// Walks over a text.
pub struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    /// Skips the rest of a line.
    fn skip_line(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    /// The next word; line ends are words too.
    fn next(&mut self) -> Option<&'t str> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
            // A backslash continues the line.
            if let Some(rest) = self.rest.strip_prefix('\\') {
                let rest = rest.trim_start_matches('\r');
                self.rest = rest.strip_prefix('\n').unwrap_or(rest);
                continue;
            }
            if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            } else if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.skip_line();
            } else {
                break;
            }
        }
        let first = self.rest.chars().next()?;
        let length = match first {
            '{' | '}' | ',' | ';' | '=' | '\n' => 1,
            '"' => self.rest[1..]
                .find(['"', '\n'])
                .map_or(self.rest.len(), |at| at + 2),
            _ => {
                let ends = |c: char| {
                    c.is_whitespace() || matches!(c, '{' | '}' | ',' | ';' | '=' | '#' | '"')
                };
                // A character outside of words is a token by itself, so this always advances.
                self.rest
                    .find(ends)
                    .unwrap_or(self.rest.len())
                    .max(first.len_utf8())
            }
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_texts_and_signs_are_told_apart() {
        check(
            "elements = { 10.0.0.1-10.0.0.7, # x\n 192.0.2.1 comment \"a, b\" }",
            "elements|=|{|10.0.0.1-10.0.0.7|,|\n|192.0.2.1|comment|\"a, b\"|}",
        );
        check("a\"b", "a|\"b");
        check("a; // x\n/* y\nz */ b /24 /* c", "a|;|\n|b|/24");
        check("", "");
        check("\u{85}x", "\u{85}|x");
    }

    fn check(text: &str, expected: &str) {
        let tokens: Vec<&str> = Tokens::new(text).collect();
        assert_eq!(tokens.join("|"), expected);
    }
}
