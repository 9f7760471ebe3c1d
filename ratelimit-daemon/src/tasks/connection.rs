//! Shared by the tasks with connections to configured servers.

use std::{convert::Infallible, time::Duration};

use tokio::sync::watch;

use crate::{control::Unanswered, crowdsec::cut};

/// The characters of an error that are reported.
const ERROR_MAX: usize = 400;

/// Runs `follow_config` with the configured server, and again after each reload that changes it.
pub async fn follow<T: Clone, F: Future<Output = Result<Infallible, Unanswered>>>(
    mut wish: watch::Receiver<Option<T>>,
    follow_config: impl Fn(Option<T>) -> F,
) -> anyhow::Result<()> {
    loop {
        let config = wish.borrow_and_update().clone();
        tokio::select! {
            changed = wish.changed() => if changed.is_err() {
                return Ok(());
            },
            stopped = follow_config(config) => match stopped? {},
        }
    }
}

/// Truncates an error, which may quote an answer of any length.
pub fn reported(error: &impl ToString) -> String {
    cut(&error.to_string(), ERROR_MAX).to_owned()
}

/// Returns the wait before the next attempt: doubled after each failure.
pub fn pause(first: Duration, longest: Duration, failures: u32) -> Duration {
    let doubled = first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_with_each_failure_up_to_the_longest() {
        let (first, longest) = (Duration::from_millis(250), Duration::from_secs(2));
        let pause = |failures| pause(first, longest, failures).as_millis();
        assert_eq!(
            [1, 2, 3, 4, 5, 99].map(pause),
            [250, 500, 1_000, 2_000, 2_000, 2_000]
        );
    }
}
