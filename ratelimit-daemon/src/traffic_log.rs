//! The packet history in `history.db`, a SQLite file next to the database.
//!
//! It has its own thread, connection and file, and the controller waits for none of them.
//! Enforcement does not depend on it: a damaged file is replaced by an empty one, and while the
//! file cannot be written the latest points stay in memory.

mod answer;
mod file;
mod increments;
mod leb128;
mod rollup;
mod sample;
mod series;
mod thread;

use std::{
    io,
    path::PathBuf,
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use ratelimit_core::api::{History, HistoryRequest, Refused};
use tokio::{sync::oneshot, time::timeout};

use self::thread::{Job, Keeper};
pub use self::{
    sample::{Counters, Sample},
    series::{Series, Sums},
    thread::Report,
};

/// Samples and questions that may wait.
const QUEUE: usize = 64;
/// The longest wait of a query for a disk that does not respond.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends samples and queries to the thread, which ends when all senders are gone.
#[derive(Clone)]
pub struct TrafficLog {
    jobs: SyncSender<Job>,
}

impl TrafficLog {
    /// Begins it in a state directory. It answers when the thread has ended, and the last sample is
    /// written.
    pub fn begin(directory: PathBuf) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (jobs, queue) = sync_channel(QUEUE);
        let (ended, end) = oneshot::channel();
        std::thread::Builder::new()
            .name("history".into())
            .spawn(move || {
                Keeper::new(&directory).run(&queue);
                let _ = ended.send(());
            })?;
        Ok((Self { jobs }, end))
    }

    /// Adds a sample. If the queue is full, the next sample includes this one.
    pub fn take(&self, sample: Sample) {
        let _ = self.jobs.try_send(Job::Sample(Box::new(sample)));
    }

    /// Returns the state of the history. `None` if the thread does not respond at the moment.
    pub async fn report(&self) -> Option<Report> {
        let (sender, answer) = oneshot::channel();
        self.jobs.try_send(Job::Report(sender)).ok()?;
        timeout(PATIENCE, answer).await.ok()?.ok()
    }

    /// Returns the history of a period.
    pub async fn ask(&self, request: HistoryRequest) -> Result<History, Refused> {
        let (sender, answer) = oneshot::channel();
        let busy = || {
            Refused::because("the packet history does not respond")
                .hint("check the disk, and see `rlctl status`")
        };
        match self.jobs.try_send(Job::Question(request, sender)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(busy()),
            Err(TrySendError::Disconnected(_)) => {
                return Err(Refused::because("the daemon is stopping"));
            }
        }
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }
}
