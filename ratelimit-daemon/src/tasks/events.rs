//! Forwards events of the kernel to the controller: sampled drops and bans by policies; in debug
//! builds also logs of the program.

use anyhow::Context;
use ratelimit_common::event::{BanEvent, DropEvent};
use tokio::io::unix::AsyncFd;
use tracing::debug;
use zerocopy::FromBytes;

use crate::{
    control::{Handle, commands::TakeEvents},
    ring::Events,
};

/// The drops that are handed on at a time.
const BATCH: usize = 256;

/// Has each drop recorded, and bans by policies adopted. While the controller is busy they wait in
/// the ring, and what finds no room there is counted as lost.
pub async fn forward_events(events: Events, controller: Handle) -> anyhow::Result<()> {
    // SAFETY: the ring owns its descriptor, and keeps it open and the same as long as it lives.
    let mut ring = unsafe { AsyncFd::register(events) }
        .map_err(std::io::Error::from)
        .context("waiting for events")?;
    loop {
        let mut ready = ring.readable_mut().await.context("waiting for events")?;
        let reported = read(ready.get_inner_mut());
        if reported.drops.len() < BATCH {
            ready.clear_ready();
        }
        if reported.is_empty() {
            continue;
        }
        controller.call(reported).await?;
    }
}

/// The next events in the ring, [`BATCH`] drops at most.
fn read(ring: &mut Events) -> TakeEvents {
    let mut reported = TakeEvents::default();
    while reported.drops.len() < BATCH
        && let Some(item) = ring.next()
    {
        match DropEvent::read_from_bytes(&item) {
            Ok(drop) => reported.drops.push(drop),
            Err(_) if item.len() == size_of::<BanEvent>() => reported.has_bans = true,
            Err(_) => debug!(bytes = item.len(), "an event of unknown type"),
        }
    }
    reported
}
