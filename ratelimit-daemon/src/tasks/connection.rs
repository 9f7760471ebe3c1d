//! What the tasks share that follow somebody whom the configuration names.

use std::{convert::Infallible, time::Duration};

use tokio::sync::watch;

use crate::{control::Unanswered, crowdsec::cut};

/// The characters of an error that are reported.
const ERROR_MAX: usize = 400;

/// Has `obey` follow whom the configuration names, also another one after a reload.
pub async fn follow<T: Clone, F: Future<Output = Result<Infallible, Unanswered>>>(
    mut wish: watch::Receiver<Option<T>>,
    obey: impl Fn(Option<T>) -> F,
) -> anyhow::Result<()> {
    loop {
        let config = wish.borrow_and_update().clone();
        tokio::select! {
            changed = wish.changed() => if changed.is_err() {
                return Ok(());
            },
            stopped = obey(config) => match stopped? {},
        }
    }
}

/// An error as it is reported: it may quote what came in place of an answer, of any length.
pub fn reported(error: &impl ToString) -> String {
    cut(&error.to_string(), ERROR_MAX).to_owned()
}

/// How long to wait for the next try after so many failures: twice as long after each further one.
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
