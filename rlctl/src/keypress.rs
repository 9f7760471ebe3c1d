//! Whether somebody presses Enter within a time.

use std::{io, time::Duration};

/// What came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Key {
    /// A line.
    Enter,
    /// Nothing, within the time.
    None,
    /// The end: nobody is there.
    Closed,
}

/// Waits for a line on stdin.
pub fn wait(timeout: Duration) -> Key {
    let mut stdin = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: it is one descriptor, and it outlives the call.
    let ready = unsafe { libc::poll(&raw mut stdin, 1, timeout) };
    if ready <= 0 {
        return Key::None;
    }
    match io::stdin().read_line(&mut String::new()) {
        Ok(0) | Err(_) => Key::Closed,
        Ok(_) => Key::Enter,
    }
}
