//! What a long measurement is at.

use std::io::{IsTerminal, Write, stderr};

/// Says what is measured, where somebody looks; nothing takes the line away.
pub fn show(what: &str) {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K{what}");
    }
}
