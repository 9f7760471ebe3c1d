//! The task that carries messages between the controller and the store of the cluster.

use std::{convert::Infallible, future::pending, time::Duration};

use ratelimit_cluster::{Arrival, NodeName, Outgoing};
use ratelimit_core::config::cluster::Cluster;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tracing::warn;

use crate::{
    clock,
    cluster::{Heard, Link, LinkError, Stream, read_secret},
    control::{
        Handle, Unanswered,
        commands::{HearStored, JoinCluster, LeaveCluster, NoteStore, ReachCluster, StepCluster},
        queries::cluster_wishes,
    },
};

use super::connection::{self, pause, reported};

/// The interval at which the controller is asked for outgoing messages.
const STEP: Duration = Duration::from_millis(50);
/// Answers of the store that wait for the controller.
const ANSWERS: usize = 4;
/// The longest pause after a failure: bans are on all nodes within 10 s after the store is back.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The first pause.
const PAUSE: Duration = Duration::from_millis(250);

/// Follows the cluster that the configuration names, also after a reload that names another or
/// finds another secret.
pub async fn follow(controller: Handle) -> anyhow::Result<()> {
    let wish = controller.ask(cluster_wishes);
    // The certificates are read for each connection.
    let read = async |config: Option<Cluster>| {
        let secret = read_secret(&config?.secret).await;
        let unread = |error: &_| warn!("{error:#}");
        secret.inspect_err(unread).ok()
    };
    let follow_config = |config| follow_config(&controller, config);
    connection::follow(wish.await?, read, follow_config).await
}

/// Takes part in a cluster: reads the secret, then carries messages.
async fn follow_config(
    controller: &Handle,
    config: Option<Cluster>,
) -> Result<Infallible, Unanswered> {
    let Some(config) = config else {
        controller.call(LeaveCluster).await?;
        return pending().await;
    };
    let mut failures = 0;
    let secret = loop {
        match read_secret(&config.secret).await {
            Ok(secret) => break secret,
            Err(error) => lose(controller, format!("{error:#}")).await?,
        }
        failures += 1;
        sleep(pause(PAUSE, PAUSE_MAX, failures)).await;
    };
    let join = JoinCluster {
        config: config.clone(),
        secret,
    };
    let node = controller.call(join).await?;
    failures = 0;
    loop {
        let since = clock::monotonic();
        let error = match Link::connect(&config).await {
            Ok((link, stream)) => {
                controller.call(ReachCluster).await?;
                carry(controller, &node, link, stream).await?
            }
            Err(error) => error,
        };
        lose(controller, reported(&error)).await?;
        let was_long = clock::elapsed(since) > Duration::from_secs(10);
        failures = if was_long { 1 } else { failures + 1 };
        idle(controller, pause(PAUSE, PAUSE_MAX, failures)).await?;
    }
}

async fn lose(controller: &Handle, error: String) -> Result<(), Unanswered> {
    controller.call(NoteStore(Err(error))).await
}

/// Lets periods pass without a store: pending messages are dropped, and nodes that miss them ask
/// again.
async fn idle(controller: &Handle, pause: Duration) -> Result<(), Unanswered> {
    let end = clock::monotonic() + pause;
    while clock::monotonic() < end {
        controller.call(StepCluster(Vec::new())).await?;
        sleep(STEP).await;
    }
    Ok(())
}

/// Carries messages both ways until the store fails, and says why it did.
async fn carry(
    controller: &Handle,
    node: &NodeName,
    mut link: Link,
    stream: Stream,
) -> Result<LinkError, Unanswered> {
    let (sender, mut answers) = mpsc::channel(ANSWERS);
    // It ends with this function.
    let mut reader = JoinSet::new();
    reader.spawn(listen(stream, sender));
    let mut step = clock::ticks(STEP);
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
        let due = controller.call(StepCluster(heard)).await?;
        // A store that is read-only, or full, answers questions and takes nothing.
        let is_taken = |outgoing: &Outgoing| match outgoing {
            Outgoing::Publish(_) | Outgoing::Store { .. } => true,
            Outgoing::Fetch { .. } => false,
        };
        let takes = due.iter().any(is_taken);
        for outgoing in due {
            if let Err(error) = send(controller, node, &mut link, outgoing).await? {
                return Ok(error);
            }
        }
        if takes {
            controller.call(NoteStore(Ok(()))).await?;
        }
    }
}

/// Reads the stream until it fails or its receiver is gone.
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
    node: &NodeName,
    link: &mut Link,
    outgoing: Outgoing,
) -> Result<Result<(), LinkError>, Unanswered> {
    Ok(match outgoing {
        Outgoing::Publish(message) => link.publish(&message).await,
        Outgoing::Store {
            part,
            lasts,
            message,
        } => link.store(node, part, &message, lasts).await,
        Outgoing::Fetch {
            node: from_node,
            parts,
        } => {
            let mut from = 0;
            loop {
                let (heard, next) = match link.fetch(&from_node, (from, parts)).await {
                    Ok(fetched) => fetched,
                    Err(error) => break Err(error),
                };
                controller.call(HearStored(heard)).await?;
                match next {
                    Some(next) => from = next,
                    None => break Ok(()),
                }
            }
        }
    })
}
