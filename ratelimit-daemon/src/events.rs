//! What the kernel tells: sampled drops and what the program of a debug build logs, into the log; bans by policies, to the
//! controller.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::Context;
use ratelimit_common::{
    DropReason,
    event::{BanEvent, DropEvent},
};
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use zerocopy::FromBytes;

use crate::{
    control::{Controller, Handle},
    datapath::{Events, Log},
};

/// Logs each drop, and has bans by policies taken over, until `stop`.
///
/// # Errors
///
/// When the ring cannot be waited for, or the controller has stopped.
pub async fn follow(
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
        let mut has_bans = false;
        while let Some(item) = ready.get_inner_mut().next() {
            if let Ok(event) = DropEvent::read_from_bytes(&item) {
                show(&event);
            }
            has_bans |= item.len() == size_of::<BanEvent>();
        }
        ready.clear_ready();
        if has_bans {
            controller.call(Controller::take_missed).await?;
        }
    }
}

/// Passes on what the program of a debug build logs, until `stop`.
///
/// # Errors
///
/// When the ring cannot be waited for.
pub async fn forward(log: Log, stop: CancellationToken) -> anyhow::Result<()> {
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

fn show(event: &DropEvent) {
    let source = IpAddr::V6(Ipv6Addr::from(event.source)).to_canonical();
    let reason = DropReason::from_number(event.reason).map_or("unknown", DropReason::label);
    debug!(%source, reason, limit = event.limit, interface = event.interface, "a sampled drop");
}
