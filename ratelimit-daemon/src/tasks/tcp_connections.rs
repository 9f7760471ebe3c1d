//! The TCP connections of this host, counted by source while a policy limits them.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use ratelimit_core::{config::SourceConfig, prefix::Prefix};
use ratelimit_interface::sockets;
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    clock,
    control::{Handle, commands::NoteConnections},
};

/// The time from one count to the next.
const PACE: Duration = Duration::from_millis(100);
/// Counting and limiting take at most one part in this many of the time.
const PART: u32 = 20;
/// The interval at which the configuration is read where it limits no connections.
const UNLIMITED: Duration = Duration::from_secs(1);

/// Counts connections while a policy limits them.
pub async fn follow(controller: Handle) -> anyhow::Result<()> {
    let mut was_counted = false;
    loop {
        let wanted = controller.ask(|it| {
            let config = &it.state.intent.config;
            Some((config.fewest_connections()?, config.source.clone()))
        });
        let Some((fewest, source)) = wanted.await? else {
            if was_counted {
                controller
                    .call(NoteConnections(Ok(BTreeMap::new())))
                    .await?;
            }
            was_counted = false;
            sleep(UNLIMITED).await;
            continue;
        };
        let start = clock::monotonic();
        let counted = spawn_blocking(move || count(fewest, &source)).await?;
        let counted = counted.map_err(|error| format!("{error:#}"));
        controller.call(NoteConnections(counted)).await?;
        was_counted = true;
        sleep(PACE.max(clock::elapsed(start) * PART)).await;
    }
}

/// Counts the connections of each source, and leaves out those with too few for any policy.
fn count(fewest: NonZeroU32, source: &SourceConfig) -> anyhow::Result<BTreeMap<Prefix, u32>> {
    let mut counted = BTreeMap::<Prefix, u32>::new();
    for (client, connections) in sockets::clients()? {
        *counted.entry(source.around(client)).or_default() += connections;
    }
    counted.retain(|_, connections| *connections >= fewest.get());
    Ok(counted)
}
