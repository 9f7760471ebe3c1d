//! The key by which the local API knows this bouncer: `cscli bouncers add NAME` prints it.

use std::{fmt, path::PathBuf};

/// The location of the key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Key {
    /// In the configuration.
    Given(Secret),
    /// In a file, which is read for each connection: a new key needs no reload.
    File(PathBuf),
}

/// A text that no log shows.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// A key; `None` for what cannot be one, as it has blanks or characters beyond ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_word.then(|| Self(text.to_owned()))
    }

    /// The key, for the one who asks for it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_word_that_no_log_shows() {
        let key = Secret::new("8f3e4d").unwrap();
        assert_eq!(
            (key.expose(), format!("{key:?}").as_str()),
            ("8f3e4d", "***")
        );
        for text in ["", "two words", "schlüssel", "line\nbreak"] {
            assert_eq!(Secret::new(text), None);
        }
    }
}
