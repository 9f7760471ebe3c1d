//! The real `rlctl` and the real daemon, but for its tables, which are in memory: lists in and out.

mod completed;
mod daemon;
mod exported;
mod files;
mod imported;

use crate::daemon::{Daemon, Said};

/// Runs `rlctl`, which must succeed, and answers what it printed.
fn ok(daemon: &Daemon, words: &[&str]) -> String {
    let said = daemon.rlctl(words, "");
    assert_eq!(said.code, 0, "{words:?}: {said:?}");
    said.stdout
}

/// Checks the output and the exit code.
fn check(said: &Said, code: i32, stdout: &str, stderr: &str) {
    assert_eq!(
        (said.stdout.as_str(), said.stderr.as_str(), said.code),
        (stdout, stderr, code)
    );
}
