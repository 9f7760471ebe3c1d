//! The progress of a long measurement.

use std::io::{IsTerminal, Write, stderr};

/// Shows the current measurement on a terminal. The line stays until it is overwritten.
pub fn show(what: &str) {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K{what}");
    }
}
