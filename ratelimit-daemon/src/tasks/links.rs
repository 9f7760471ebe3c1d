//! Watches interfaces for changes. They are also polled, because the kernel does not report
//! detached programs.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    clock,
    control::{Handle, commands::TendLinks},
    rtnetlink::Watch,
};

/// The netlink groups to watch.
pub const GROUPS: [u32; 1] = [libc::RTNLGRP_LINK];
/// The interval at which interfaces are checked without a notification.
const EVERY: Duration = Duration::from_millis(250);
/// While thousands of interfaces change, they are checked once in this time.
const SETTLES: Duration = Duration::from_millis(20);
/// and that many changes at once before: each change of a new interface is handled without delay.
const AT_ONCE: u32 = 25;

/// Has the controller look at the interfaces whenever they may be different.
pub async fn keep_attached(watch: Watch, controller: Handle) -> anyhow::Result<()> {
    let changes = watch.changes()?;
    let mut every = clock::ticks(EVERY);
    // When looks at the slower rate would have caught up.
    let mut settled = clock::monotonic();
    loop {
        tokio::select! {
            _ = every.tick() => {}
            changed = changes.next(|_| true) => changed?,
        }
        controller.call(TendLinks).await?;
        let now = clock::monotonic();
        settled = settled.max(now) + SETTLES;
        sleep((settled - now).saturating_sub(SETTLES * AT_ONCE)).await;
    }
}
