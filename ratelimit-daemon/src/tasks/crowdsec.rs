//! The task that follows the decisions.

use std::{io, time::Duration};

use hyper::body::Bytes;
use ratelimit_core::config::Crowdsec;
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock,
    control::{
        Handle, Unanswered,
        commands::{EndCrowdsecBans, LoseCrowdsec, TakeDecisions},
    },
    crowdsec::{Client, Decisions, PullError, Update, cut},
};

/// How often all decisions are asked for, in case that a change was not told.
const WHOLE: Duration = Duration::from_hours(1);
/// The characters of an error that are told.
const ERROR_MAX: usize = 400;
/// The longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Follows the decisions of the API that the configuration names, also of another one after a reload, until `stop`.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn follow(controller: Handle, stop: CancellationToken) -> anyhow::Result<()> {
    let mut wish = controller
        .ask(|controller| controller.crowdsec.wishes())
        .await?;
    loop {
        let config = wish.borrow_and_update().clone();
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = wish.changed() => if changed.is_err() {
                return Ok(());
            },
            stopped = obey(&controller, config) => return Err(stopped.into()),
        }
    }
}

/// Follows one API, or none, for as long as the controller runs.
async fn obey(controller: &Handle, config: Option<Crowdsec>) -> Unanswered {
    let answer = match config {
        Some(config) => poll(controller, &config).await,
        None => controller.call(EndCrowdsecBans).await,
    };
    match answer {
        Ok(()) => std::future::pending().await,
        Err(stopped) => stopped,
    }
}

async fn poll(controller: &Handle, config: &Crowdsec) -> Result<(), Unanswered> {
    let client = Client::new(config.address.clone(), config.key.clone());
    let mut decisions = Decisions::default();
    // When all decisions were asked for; what was missed since a failure can only be told by all of them.
    let mut whole: Option<Instant> = None;
    let mut failures = 0;
    loop {
        let is_due = whole.is_none_or(|at| at.elapsed() >= WHOLE);
        let is_kept = match pull(&client, &mut decisions, is_due).await {
            Ok(update) => controller.call(TakeDecisions { update }).await?,
            Err(error) => {
                // It may quote what came in place of an answer.
                let error = cut(&error.to_string(), ERROR_MAX).to_owned();
                controller.call(LoseCrowdsec { error }).await?;
                false
            }
        };
        match (is_kept, is_due) {
            (true, true) => whole = Some(Instant::now()),
            (true, false) => {}
            (false, _) => whole = None,
        }
        failures = if is_kept { 0 } else { failures + 1 };
        sleep(pause(config.every, failures)).await;
    }
}

/// Asks, and takes the answer in while it comes: beside the runtime, a million decisions take seconds.
async fn pull(
    client: &Client,
    decisions: &mut Decisions,
    whole: bool,
) -> Result<Update, PullError> {
    let mut answer = client.pull(whole).await?;
    let (sender, bytes) = mpsc::channel(PIECES);
    let mut held = std::mem::take(decisions);
    let taken = spawn_blocking(move || {
        let (now, answer) = (clock::now(), Pieces::new(bytes));
        let update = if whole {
            held.replace(answer, now)
        } else {
            held.change(answer, now)
        };
        (held, update)
    });
    let passed_on = async {
        while let Some(bytes) = answer.next().await? {
            if sender.send(bytes).await.is_err() {
                // It is no answer, which is told by who reads it.
                break;
            }
        }
        Ok(())
    };
    let passed_on: Result<(), PullError> = passed_on.await;
    drop(sender);
    let (held, update) = taken.await.expect("reading an answer does not panic");
    *decisions = held;
    // One that breaks off is cut for who reads it.
    passed_on?;
    Ok(update?)
}

/// Pieces of an answer that wait to be read.
const PIECES: usize = 4;

/// An answer as its pieces come, for a thread that waits for them.
struct Pieces {
    coming: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Pieces {
    fn new(coming: mpsc::Receiver<Bytes>) -> Self {
        Self {
            coming,
            current: Bytes::new(),
        }
    }
}

impl io::Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.coming.blocking_recv() {
                Some(next) => self.current = next,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.current.len());
        buffer[..length].copy_from_slice(&self.current.split_to(length));
        Ok(length)
    }
}

/// How long to wait for the next try: after a failure a second, and twice as long after each further one.
fn pause(every: Duration, failures: u32) -> Duration {
    if failures == 0 {
        return every;
    }
    let doubled = Duration::from_secs(1) * 2_u32.saturating_pow(failures - 1);
    doubled.min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_with_each_failure_up_to_a_minute() {
        let pause = |failures| pause(Duration::from_secs(10), failures).as_secs();
        assert_eq!([0, 1, 2, 3, 7, 8, 99].map(pause), [10, 1, 2, 4, 60, 60, 60]);
    }
}
