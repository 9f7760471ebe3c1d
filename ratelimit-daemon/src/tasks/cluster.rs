//! The task that carries messages between the controller and the store of the cluster.

use std::{convert::Infallible, time::Duration};

use ratelimit_cluster::{Arrival, Outgoing};
use ratelimit_core::config::cluster::Cluster;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{Heard, Link, LinkError, Stream, read_secret},
    control::{
        Controller, Handle, Joined, Unanswered,
        commands::{
            FindCluster, HearStored, JoinCluster, LeaveCluster, LoseCluster, ReachCluster,
            StepCluster,
        },
    },
    crowdsec::cut,
};

/// How often the controller is asked what is to be sent.
const STEP: Duration = Duration::from_millis(100);
/// Answers of the store that wait for the controller.
const ANSWERS: usize = 4;
/// The longest pause after a failure: bans are on all nodes within 10 s after the store is back.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The first pause.
const PAUSE: Duration = Duration::from_millis(250);
/// The characters of an error that are told.
const ERROR_MAX: usize = 400;

/// Follows the cluster that the configuration names, also another one after a reload, until `stop`.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn follow(controller: Handle, stop: CancellationToken) -> anyhow::Result<()> {
    let mut wish = controller.ask(Controller::cluster_wish).await?;
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

/// Is a node of one cluster, or of none, for as long as the controller runs.
async fn obey(controller: &Handle, config: Option<Cluster>) -> Unanswered {
    let answer = match config {
        Some(config) => take_part(controller, config).await,
        None => match controller.call(LeaveCluster).await {
            Ok(()) => return std::future::pending().await,
            Err(stopped) => Err(stopped),
        },
    };
    match answer {
        Ok(never) => match never {},
        Err(stopped) => stopped,
    }
}

/// Reads the secret, then carries messages.
async fn take_part(controller: &Handle, config: Cluster) -> Result<Infallible, Unanswered> {
    let mut failures = 0;
    let secret = loop {
        match read_secret(&config.secret).await {
            Ok(secret) => break secret,
            Err(error) => lose(controller, format!("{error:#}")).await?,
        }
        failures += 1;
        sleep(pause(failures)).await;
    };
    let join = config.clone();
    let joined = controller
        .call(JoinCluster {
            config: join,
            secret,
        })
        .await?;
    failures = 0;
    loop {
        let since = Instant::now();
        let error = match Link::connect(&config.store).await {
            Ok((link, stream)) => {
                controller.call(ReachCluster).await?;
                carry(controller, &joined, link, stream).await?
            }
            Err(error) => error,
        };
        // What the server says may be of any length.
        let error = cut(&error.to_string(), ERROR_MAX).to_owned();
        lose(controller, error).await?;
        let was_long = since.elapsed() > Duration::from_secs(10);
        failures = if was_long { 1 } else { failures + 1 };
        idle(controller, pause(failures)).await?;
    }
}

async fn lose(controller: &Handle, error: String) -> Result<(), Unanswered> {
    controller.call(LoseCluster { error }).await
}

/// Waits, while periods pass without a store: what is to be sent is not kept, and asked for again by those who miss it.
async fn idle(controller: &Handle, pause: Duration) -> Result<(), Unanswered> {
    let end = Instant::now() + pause;
    while Instant::now() < end {
        controller.call(StepCluster { heard: Vec::new() }).await?;
        sleep(STEP).await;
    }
    Ok(())
}

/// Carries messages both ways until the store fails, and says why it did.
async fn carry(
    controller: &Handle,
    joined: &Joined,
    mut link: Link,
    stream: Stream,
) -> Result<LinkError, Unanswered> {
    let (sender, mut answers) = mpsc::channel(ANSWERS);
    // It ends with this function.
    let mut reader = JoinSet::new();
    reader.spawn(listen(stream, sender));
    let mut step = interval(STEP);
    step.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let heard = tokio::select! {
            answer = answers.recv() => match answer {
                Some(Ok(heard)) => heard,
                Some(Err(error)) => return Ok(error),
                None => return Ok(LinkError::Nonsense("the reader")),
            },
            _ = step.tick() => Vec::new(),
        };
        if let Some(Arrival::Stream { stored }) = heard.last().map(|it| it.arrival) {
            link.saw(stored);
        }
        let due = controller.call(StepCluster { heard }).await?;
        let sends = !due.is_empty();
        for outgoing in due {
            if let Err(error) = send(controller, joined, &mut link, outgoing).await? {
                return Ok(error);
            }
        }
        if sends {
            // A store that is read-only, or full, answers and takes nothing.
            controller.call(FindCluster).await?;
        }
    }
}

/// Reads the stream until that fails, or nobody takes what it reads.
async fn listen(mut stream: Stream, answers: mpsc::Sender<Result<Vec<Heard>, LinkError>>) {
    loop {
        let heard = stream.read().await;
        let is_over = heard.is_err();
        let is_empty = heard.as_ref().is_ok_and(Vec::is_empty);
        if !is_empty && answers.send(heard).await.is_err() || is_over {
            return;
        }
    }
}

async fn send(
    controller: &Handle,
    joined: &Joined,
    link: &mut Link,
    outgoing: Outgoing,
) -> Result<Result<(), LinkError>, Unanswered> {
    Ok(match outgoing {
        Outgoing::Publish(message) => link.publish(&message).await,
        Outgoing::Store {
            part,
            until,
            message,
        } => {
            let times = (Joined::wall(), until);
            link.store(&joined.node, part, &message, times).await
        }
        Outgoing::Fetch { node, parts } => {
            let mut from = 0;
            loop {
                let (heard, next) = match link.fetch(&node, (from, parts)).await {
                    Ok(fetched) => fetched,
                    Err(error) => break Err(error),
                };
                controller.call(HearStored { heard }).await?;
                match next {
                    Some(next) => from = next,
                    None => break Ok(()),
                }
            }
        }
    })
}

/// How long to wait for the next try: twice as long after each further failure.
fn pause(failures: u32) -> Duration {
    let doubled = PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1));
    doubled.min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_with_each_failure_up_to_two_seconds() {
        let pause = |failures| pause(failures).as_millis();
        assert_eq!(
            [1, 2, 3, 4, 5, 99].map(pause),
            [250, 500, 1_000, 2_000, 2_000, 2_000]
        );
    }
}
