//! Shared by the tasks with connections to configured servers.

use std::{convert::Infallible, time::Duration};

use tokio::sync::watch;

use crate::{control::Unanswered, crowdsec::cut};

/// The characters of an error that are reported.
const ERROR_MAX: usize = 400;

/// Runs `follow_config` with the configured server, and again after each reload that changes it or
/// what `read` returns for it. While that is `None`, it counts as unchanged.
pub async fn follow<
    T: Clone + PartialEq,
    S: PartialEq,
    R: Future<Output = Option<S>>,
    F: Future<Output = Result<Infallible, Unanswered>>,
>(
    mut wish: watch::Receiver<Option<T>>,
    read: impl Fn(Option<T>) -> R,
    follow_config: impl Fn(Option<T>) -> F,
) -> anyhow::Result<()> {
    loop {
        let config = wish.borrow_and_update().clone();
        let before = read(config.clone()).await;
        let changed = async {
            loop {
                wish.changed().await?;
                let next = wish.borrow_and_update().clone();
                let is_same = next == config;
                let now = read(next).await;
                if !is_same || now.is_some() && now != before {
                    return Ok::<_, watch::error::RecvError>(());
                }
            }
        };
        tokio::select! {
            changed = changed => if changed.is_err() {
                return Ok(());
            },
            stopped = follow_config(config.clone()) => match stopped? {},
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
    use std::{cell::Cell, future::pending};

    use super::*;

    #[tokio::test]
    async fn a_reload_starts_again_if_the_server_or_its_file_is_another() {
        let (sender, wish) = watch::channel(Some("server"));
        let (content, starts) = (Cell::new(Some(1)), Cell::new(0));
        let read = async |_| content.get();
        let follow_config = async |_| {
            starts.set(starts.get() + 1);
            pending().await
        };
        let reloads = async {
            let mut started = Vec::new();
            for (server, file) in [
                ("server", Some(1)),
                ("server", None),
                ("server", Some(2)),
                ("other", None),
            ] {
                tokio::task::yield_now().await;
                content.set(file);
                sender.send_replace(Some(server));
                tokio::task::yield_now().await;
                started.push(starts.get());
            }
            drop(sender);
            started
        };
        let (followed, started) = tokio::join!(follow(wish, read, follow_config), reloads);
        followed.unwrap();
        assert_eq!(started, [1, 1, 2, 3]);
    }

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
