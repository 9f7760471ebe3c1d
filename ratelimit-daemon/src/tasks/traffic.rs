//! Each second, the counters of the kernel for the history of packets.

use std::time::{Duration, Instant};

use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock,
    control::{
        Handle,
        commands::NoteHistory,
        queries::{self, Scanned},
        queries::{traffic_sample, watched_sources},
    },
    traffic_log::TrafficLog,
};

const PERIOD: Duration = Duration::from_secs(1);
/// The interval at which the state of the history is reported, in periods.
const REPORT_EVERY: u32 = 5;
/// The part of the time that scans of all sources take at most.
const SCANS_PART: u32 = 20;

/// Hands them over until `stop`.
pub async fn follow(
    log: TrafficLog,
    controller: Handle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut count = 0;
    let mut scans = Scans::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        let scanned = scans.take(&controller).await?;
        let sample = controller.ask(|it| traffic_sample(it, scanned));
        // If the kernel's tables cannot be read, the next sample includes the missing part.
        if let Ok(sample) = sample.await? {
            log.take(sample);
        }
        if count % REPORT_EVERY == 0
            && let Some(report) = log.report().await
        {
            controller.call(NoteHistory(report)).await?;
        }
        count += 1;
    }
    let sample = controller.ask(|it| traffic_sample(it, None));
    if let Ok(Ok(sample)) = sample.await {
        log.take(sample);
    }
    Ok(())
}

/// Background scans of all sources for watched targets that need one; samples do not wait for them.
#[derive(Default)]
struct Scans {
    under_way: Option<oneshot::Receiver<Found>>,
    /// The earliest start of the next scan.
    next: Option<Instant>,
}

/// The result and duration of a scan; `None` if the tables could not be read.
type Found = (Option<Scanned>, Duration);

impl Scans {
    /// Returns the result since the last call, and starts another scan if one is needed and due.
    async fn take(&mut self, controller: &Handle) -> anyhow::Result<Option<Scanned>> {
        let found = match self.under_way.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return Ok(None),
            Some(Ok((found, took))) => {
                self.next = Some(clock::monotonic() + took * (SCANS_PART - 1));
                found
            }
            Some(Err(TryRecvError::Closed)) | None => None,
        };
        self.under_way = None;
        if self.next.is_some_and(|next| clock::monotonic() < next) {
            return Ok(found);
        }
        let Ok(Some(many)) = controller.ask(|it| watched_sources(&it.state)).await? else {
            return Ok(found);
        };
        let (sender, under_way) = oneshot::channel();
        self.under_way = Some(under_way);
        let controller = controller.clone();
        tokio::spawn(async move {
            // The daemon may be stopping.
            if let Ok(found) = queries::scan(&controller, many).await {
                let _ = sender.send(found);
            }
        });
        Ok(found)
    }
}
