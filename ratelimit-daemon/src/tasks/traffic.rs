//! Each second, the counters of the kernel for the history of packets.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{
    control::{Handle, commands::NoteHistory, queries},
    traffic_log::TrafficLog,
};

const PERIOD: Duration = Duration::from_secs(1);
/// How often it is told how the history is kept, in periods.
const REPORT_EVERY: u32 = 5;

/// Hands them over until `stop`.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn follow(
    log: TrafficLog,
    controller: Handle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut count = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        // Where the kernel's tables cannot be read, the next sample has what came.
        if let Ok(sample) = controller.ask(queries::traffic::sample).await? {
            log.take(sample);
        }
        if count % REPORT_EVERY == 0
            && let Some(report) = log.report().await
        {
            controller.call(NoteHistory(report)).await?;
        }
        count += 1;
    }
    if let Ok(Ok(sample)) = controller.ask(queries::traffic::sample).await {
        log.take(sample);
    }
    Ok(())
}
