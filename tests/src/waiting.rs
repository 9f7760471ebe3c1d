//! Waits for conditions.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::PATIENCE;

/// The pauses between two questions: each takes time from what is waited for.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(50);

/// Asks until something is so, and answers how long that took.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) -> Duration {
    until(is_so, || format!("{what}: this does not come"))
}

/// Asks until there is an answer.
#[track_caller]
pub fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    answer(ask, || format!("{what}: this does not come"))
}

/// Waits until `is_so` and returns the duration of the wait. Panics with `failure` on a timeout.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool, failure: impl FnOnce() -> String) -> Duration {
    let start = Instant::now();
    answer(|| is_so().then_some(()), failure);
    start.elapsed()
}

/// Waits for an answer. Panics with `failure` on a timeout.
#[track_caller]
pub fn answer<T>(mut ask: impl FnMut() -> Option<T>, failure: impl FnOnce() -> String) -> T {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = SHORTEST;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{}", failure());
        thread::sleep(pause);
        pause = LONGEST.min(pause * 5 / 4);
    }
}
