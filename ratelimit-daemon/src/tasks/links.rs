//! The kernel tells of interfaces that come, go and change. From time to time they are looked at, as it does not tell that somebody
//! has taken a program off.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    clock,
    control::{Handle, commands::TendLinks},
    rtnetlink::Watch,
};

/// What the kernel is to tell of.
pub const GROUPS: [u32; 1] = [libc::RTNLGRP_LINK];
/// How often interfaces are looked at although nothing was reported.
const EVERY: Duration = Duration::from_millis(250);
/// How long a look draws others after it: where thousands of interfaces come and go, they are looked at 50 times a second.
const SETTLES: Duration = Duration::from_millis(20);

/// Has the controller look at the interfaces whenever they may be different.
pub async fn keep_attached(watch: Watch, controller: Handle) -> anyhow::Result<()> {
    let changes = watch.changes()?;
    let mut every = clock::ticks(EVERY);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            changed = changes.next(|_| true) => changed?,
        }
        controller.call(TendLinks).await?;
        sleep(SETTLES).await;
    }
}
