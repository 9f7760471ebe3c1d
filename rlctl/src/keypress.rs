//! Waits for Enter, the end of the session, or a timeout.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Key {
    /// A line.
    Enter,
    /// Nothing, within the time.
    None,
    /// The end of the input, a lost terminal, or a signal to end, such as Ctrl-C.
    Left,
}

/// Reads keys, and does not end by a signal from now on.
pub struct Keys(Arc<AtomicBool>);

impl Keys {
    /// Begins to watch.
    pub fn watch() -> io::Result<Self> {
        let has_ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&has_ended))?;
        }
        Ok(Self(has_ended))
    }

    /// Waits for a line on stdin.
    pub fn wait(&self, timeout: Duration) -> Key {
        if self.0.load(Ordering::Relaxed) {
            return Key::Left;
        }
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut polled, timeout.try_into().ok().as_ref()) {
            // A signal interrupts it.
            Ok(0) | Err(_) if self.0.load(Ordering::Relaxed) => return Key::Left,
            Ok(0) | Err(_) => return Key::None,
            Ok(_) => {}
        }
        match stdin.read_line(&mut String::new()) {
            Ok(0) | Err(_) => Key::Left,
            Ok(_) => Key::Enter,
        }
    }
}
