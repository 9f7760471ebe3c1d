//! The errors of a refused configuration.

use std::path::Path;

use crate::diagnostic::Diagnostic;

/// Every problem of a configuration that could be found.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", lines(.diagnostics.iter().map(ToString::to_string)))]
pub struct ConfigError {
    diagnostics: Vec<Diagnostic>,
}

impl ConfigError {
    /// The problems for those who wrote the file `own` and may not read the others.
    pub fn unquoted(&self, own: Option<&Path>) -> String {
        let reported = self.diagnostics.iter().map(|diagnostic| {
            let is_own = own.is_some() && diagnostic.file.as_deref() == own;
            if is_own {
                diagnostic.to_string()
            } else {
                diagnostic.unquoted()
            }
        });
        lines(reported)
    }

    /// The problems of a configuration; at least one.
    pub fn new(diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics }
    }

    /// The problems, in the order of the files; at least one.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

fn lines(reported: impl Iterator<Item = String>) -> String {
    reported.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Position, Problem};

    #[test]
    fn of_a_file_that_is_not_the_own_nothing_is_quoted() {
        let diagnostic = Diagnostic {
            position: Some(Position::new("key = secret", &(6..12))),
            ..Diagnostic::of_file(
                Path::new("/a/b"),
                Problem::new("no `secret`", "write secret"),
            )
        };
        let error = ConfigError::new(vec![diagnostic]);
        assert!(error.unquoted(Some(Path::new("/a/b"))).contains("secret"));
        assert!(!error.unquoted(Some(Path::new("/a/c"))).contains("secret"));
        assert!(!error.unquoted(None).contains("secret"));
    }
}
