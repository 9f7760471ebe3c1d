//! What the kernel tells, for the journal of the controller: sampled drops; and in debug builds what the program logs.

use anyhow::Context;
use ratelimit_common::event::DropEvent;
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use zerocopy::FromBytes;

use crate::{
    control::Handle,
    datapath::{Events, Log},
};

/// The events that are handed on at a time.
const BATCH: usize = 256;

/// Hands each event on until `stop`. While the controller is busy they wait in the ring, and what finds no room there is
/// counted as lost.
///
/// # Errors
///
/// When the ring cannot be waited for.
pub async fn forward_events(
    events: Events,
    controller: Handle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // SAFETY: the ring owns its descriptor, and keeps it open and the same as long as it lives.
    let mut ring = unsafe { AsyncFd::register(events) }
        .map_err(std::io::Error::from)
        .context("waiting for events")?;
    loop {
        let mut ready = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            ready = ring.readable_mut() => ready.context("waiting for events")?,
        };
        let drops = read(ready.get_inner_mut());
        if drops.len() < BATCH {
            ready.clear_ready();
        }
        if !drops.is_empty() {
            controller
                .call(move |controller| controller.record_drops(&drops))
                .await?;
        }
    }
}

/// The next events in the ring, [`BATCH`] at most.
fn read(ring: &mut Events) -> Vec<DropEvent> {
    let mut drops = Vec::new();
    while drops.len() < BATCH
        && let Some(item) = ring.next()
    {
        match DropEvent::read_from_bytes(&item) {
            Ok(drop) => drops.push(drop),
            Err(_) => debug!(bytes = item.len(), "an event of no known kind"),
        }
    }
    drops
}

/// Passes on what the program of a debug build logs, until `stop`.
///
/// # Errors
///
/// When the ring cannot be waited for.
pub async fn forward_log(log: Log, stop: CancellationToken) -> anyhow::Result<()> {
    // SAFETY: the log owns its descriptor, and keeps it open and the same as long as it lives.
    let mut log = unsafe { AsyncFd::register(log) }
        .map_err(std::io::Error::from)
        .context("waiting for the log of the program")?;
    loop {
        let mut ready = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            ready = log.readable_mut() => ready.context("waiting for the log of the program")?,
        };
        ready.get_inner_mut().flush();
        ready.clear_ready();
    }
}
