//! A program that hears of each event.

use std::{
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use crate::output;

/// Runs the program with an event on stdin, and waits for its end. A failure is reported, and does
/// not stop later events.
pub fn run(program: &Path, event: &[u8]) {
    let name = program.display();
    match ended(program, event) {
        Ok(status) if status.success() => {}
        Ok(status) => output::say(&format!("{name}: {status}")),
        Err(error) => output::say(&format!("{name}: {error}")),
    }
}

fn ended(program: &Path, event: &[u8]) -> io::Result<ExitStatus> {
    let mut child = Command::new(program).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The program may ignore its stdin.
        let _ = stdin.write_all(event).and_then(|()| stdin.write_all(b"\n"));
    }
    child.wait()
}
