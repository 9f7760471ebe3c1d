//! What the kernel tells, into the log: sampled drops, and in debug builds what the program logs.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::Context;
use ratelimit_common::{DropReason, event::DropEvent};
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use zerocopy::FromBytes;

use crate::datapath::{Events, Log};

/// Logs each event until `stop`.
///
/// # Errors
///
/// When the ring cannot be waited for.
pub async fn log(events: Events, stop: CancellationToken) -> anyhow::Result<()> {
    // SAFETY: the ring owns its descriptor, and keeps it open and the same as long as it lives.
    let mut ring = unsafe { AsyncFd::register(events) }
        .map_err(std::io::Error::from)
        .context("waiting for events")?;
    loop {
        let mut ready = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            ready = ring.readable_mut() => ready.context("waiting for events")?,
        };
        while let Some(item) = ready.get_inner_mut().next() {
            if let Ok(event) = DropEvent::read_from_bytes(&item) {
                show(&event);
            }
        }
        ready.clear_ready();
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
