//! The manual pages, made from the help of the commands and from the configuration that is shipped.
//!
//! They are committed in `contrib/man`, where a package takes them from. The tests of each command
//! [check](committed) its pages.

mod command;
#[cfg(test)]
mod configuration;

use std::{env, fs, path::Path};

pub use self::command::pages;

/// If set, the tests write the pages instead of comparing them.
const WRITE: &str = "RATELIMIT_WRITE";

/// The name and the title of the manual, and the date of the release.
const MANUAL: &str = "ratelimit";
const SOURCE: &str = concat!("ratelimit ", env!("CARGO_PKG_VERSION"));
const DATE: &str = "2026-11-28";

/// A page, by the name of its file: `rlctl-ban.1`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    /// The name of the file.
    pub file: String,
    /// Source text for `man`.
    pub text: String,
}

impl Page {
    fn new(name: &str, section: &str, text: &str) -> Self {
        // Paragraphs of help leave a break beside a space, and blanks at ends of lines.
        let mut kept: Vec<&str> = Vec::new();
        for line in text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
        {
            match (kept.last(), line) {
                (Some(&".sp" | &".br"), ".br") => continue,
                (Some(&".br"), ".sp") => drop(kept.pop()),
                _ => {}
            }
            kept.push(line);
        }
        Self {
            file: format!("{name}.{section}"),
            text: kept.join("\n") + "\n",
        }
    }
}

/// Checks that the pages are what is committed.
///
/// # Panics
///
/// Where one of them is not, and the variable `RATELIMIT_WRITE` is not set, which writes it.
pub fn committed(pages: &[Page]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/man");
    for page in pages {
        let path = directory.join(&page.file);
        if env::var_os(WRITE).is_some() {
            fs::write(&path, &page.text).expect("the directory is there");
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == page.text,
            "contrib/man/{} is not what the help says: `{WRITE}=1 cargo test manual` writes it",
            page.file
        );
    }
}
