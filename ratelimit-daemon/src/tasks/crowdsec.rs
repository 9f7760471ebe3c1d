//! The task that follows the decisions.

use std::{
    convert::Infallible,
    future::pending,
    io,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use hyper::body::Bytes;
use ratelimit_core::config::Crowdsec;
use tokio::{sync::mpsc, task::spawn_blocking, time::sleep};

use crate::{
    clock,
    control::{
        Handle, Unanswered,
        commands::{EndCrowdsecBans, TakeDecisions},
        queries::crowdsec_wishes,
    },
    crowdsec::{Client, Decisions, Update},
};

use super::connection::{self, pause, reported};

/// The interval at which all decisions are requested, in case a change was not reported.
const WHOLE: Duration = Duration::from_hours(1);
/// The first pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Follows the decisions of the API that the configuration names, also of another one after a
/// reload.
pub async fn follow(controller: Handle) -> anyhow::Result<()> {
    let wish = controller.ask(crowdsec_wishes);
    // The key is read for each request.
    let read = async |_| None::<()>;
    let follow_config = |config| follow_config(&controller, config);
    connection::follow(wish.await?, read, follow_config).await
}

async fn follow_config(
    controller: &Handle,
    config: Option<Crowdsec>,
) -> Result<Infallible, Unanswered> {
    let Some(config) = config else {
        controller.call(EndCrowdsecBans).await?;
        return pending().await;
    };
    let client = Client::new(config.address, config.key);
    let mut decisions = Decisions::default();
    // The last full synchronization. After a failure only a full one is certain to contain what was
    // missed.
    let mut whole: Option<Instant> = None;
    let mut failures = 0;
    loop {
        let is_due = whole.is_none_or(|at| clock::elapsed(at) >= WHOLE);
        let answer = pull(&client, &mut decisions, is_due).await;
        let answer = answer.map_err(|error| reported(&error));
        let is_kept = controller.call(TakeDecisions(answer)).await?;
        match (is_kept, is_due) {
            (true, true) => whole = Some(clock::monotonic()),
            (true, false) => {}
            (false, _) => whole = None,
        }
        failures = if is_kept { 0 } else { failures + 1 };
        let pause = match failures {
            0 => config.every,
            failures => pause(PAUSE, PAUSE_MAX, failures),
        };
        sleep(pause).await;
    }
}

/// Asks, and takes the answer in while it comes: beside the runtime, a million decisions take
/// seconds.
async fn pull(client: &Client, decisions: &mut Decisions, whole: bool) -> anyhow::Result<Update> {
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
                // The reader reports that this is not an answer.
                break;
            }
        }
        Ok(())
    };
    let passed_on: anyhow::Result<()> = passed_on.await;
    drop(sender);
    let (held, update) = taken.await.expect("reading an answer does not panic");
    *decisions = held;
    // A truncated answer ends the body early for its reader.
    passed_on?;
    update.map_err(|error| anyhow!("the response is not a list of decisions: {error}"))
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
