//! Whether somebody presses Enter within a time.

use std::{io, time::Duration};

use rustix::event::{PollFd, PollFlags, poll};

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
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut polled, timeout.try_into().ok().as_ref()) {
        Ok(0) | Err(_) => return Key::None,
        Ok(_) => {}
    }
    match stdin.read_line(&mut String::new()) {
        Ok(0) | Err(_) => Key::Closed,
        Ok(_) => Key::Enter,
    }
}
