//! Keeps the protected addresses current: the kernel reports changes of addresses and default
//! routes; files and sessions are read every minute.

use std::time::Duration;

use netlink_packet_core::NetlinkPayload;
use tokio::time::sleep;

use ratelimit_interface::messages;

use crate::{
    clock,
    control::{Handle, commands::Protect},
    protected::{Protected, netlink::is_relevant},
    rtnetlink::{Changes, Watch},
};

/// The netlink groups to watch.
pub const GROUPS: [u32; 4] = [
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV6_ROUTE,
];
/// The interval at which files and sessions are checked.
const EVERY: Duration = Duration::from_mins(1);
/// The wait for further changes: a new interface gets several addresses.
const SETTLES: Duration = Duration::from_millis(200);

fn has_relevant(bytes: &[u8]) -> bool {
    messages(bytes).any(|message| {
        message.is_ok_and(|message| {
            matches!(&message.payload, NetlinkPayload::InnerMessage(inner) if is_relevant(inner))
        })
    })
}

/// Tells the controller what is protected, whenever that may be different.
pub async fn keep_current(watch: Watch, controller: Handle) -> anyhow::Result<()> {
    let changes = watch.changes()?;
    let mut every = clock::ticks(EVERY);
    // The first tick is immediate, and the host was already checked before the program was
    // attached.
    every.tick().await;
    loop {
        tokio::select! {
            _ = every.tick() => {}
            changed = changed(&changes) => changed?,
        }
        let found = tokio::task::spawn_blocking(Protected::find).await?;
        controller.call(Protect(found)).await?;
    }
}

/// Waits until the protected addresses may have changed, and no further change has arrived for a
/// moment.
async fn changed(changes: &Changes) -> anyhow::Result<()> {
    changes.next(has_relevant).await?;
    sleep(SETTLES).await;
    changes.drain(has_relevant).map(drop)
}
