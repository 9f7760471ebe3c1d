//! Waiting for what comes by itself.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::PATIENCE;

/// Asks until something is so, and answers how long that took.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    wait_for(what, || is_so().then_some(()));
    start.elapsed()
}

/// Asks until there is an answer.
pub fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait_or(ask, || format!("{what}: this does not come"))
}

/// The same, which says something of its own where nothing comes.
pub fn wait_or<T>(mut ask: impl FnMut() -> Option<T>, failure: impl FnOnce() -> String) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{}", failure());
        thread::sleep(Duration::from_millis(10));
    }
}
