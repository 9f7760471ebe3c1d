//! Snapshots of usage: periodically, and when the daemon stops.

use std::{sync::Arc, time::Duration};

use tracing::debug;

use super::Command;
use crate::{
    clock,
    control::{
        controller::{
            Controller,
            handle::{Handle, Unanswered},
        },
        reports::troubles::KEY_USAGE,
        sources::snapshot::{self, Job, Snapshot},
    },
};

/// The name of the trouble that no snapshot can be written.
const SNAPSHOT: &str = "usage snapshot";

/// Returns the interval of snapshots, or `None` if they are disabled.
pub async fn snapshots_every(controller: &Handle) -> Result<Option<Duration>, Unanswered> {
    controller
        .ask(|it| it.state.intent.config.snapshot.every)
        .await
}

/// Takes a snapshot on another thread, so that the controller neither reads the tables nor waits
/// for the disk.
pub async fn take_snapshot(controller: &Handle) -> Result<(), Unanswered> {
    let job = controller.ask(job).await?;
    let policies = Arc::clone(&job.policies);
    let taken = on_blocking_thread(move || job.take("new")).await;
    // If the policies changed during the scan, the words may belong to other limits.
    let is_current = controller
        .ask(move |it| Arc::ptr_eq(&it.policies(), &policies))
        .await?;
    let kept = match taken {
        Ok(taken) if is_current => Some(on_blocking_thread(move || taken.keep()).await),
        // Nothing is known about whether the next one can be written.
        Ok(taken) => on_blocking_thread(move || taken.discard())
            .await
            .err()
            .map(Err),
        Err(error) => Some(Err(error)),
    };
    if let Some(kept) = kept {
        controller.call(NoteSnapshot(kept)).await?;
    }
    let keys = controller.keys().clone();
    let saved = on_blocking_thread(move || keys.save()).await;
    controller.call(NoteKeys(saved)).await
}

async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn job(controller: &Controller) -> Job {
    let state = &controller.state;
    let now = clock::now();
    Job {
        tables: Arc::clone(&state.enforcer.datapath().sources),
        policies: controller.policies(),
        now: (now, state.kept.store.time(now)),
        min_window: state.intent.config.snapshot.min_window,
        file: snapshot::file(&state.intent.config.paths.state),
    }
}

/// Records the result of a snapshot.
struct NoteSnapshot(anyhow::Result<Snapshot>);

impl Command for NoteSnapshot {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let error = match self.0 {
            Ok(Snapshot {
                entries,
                bytes,
                took,
                ..
            }) => {
                debug!(entries, bytes, ?took, "took a snapshot of usage");
                None
            }
            Err(error) => Some(format!(
                "{error:#}; a reboot would reset usage since the last snapshot"
            )),
        };
        controller.state.report(SNAPSHOT, error);
    }
}

/// Records whether the usage of keys was saved.
struct NoteKeys(anyhow::Result<()>);

impl Command for NoteKeys {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let error = self.0.err();
        let error = error.map(|error| {
            format!("{error:#}; a restart would reset usage of keys since it was last saved")
        });
        controller.state.report(KEY_USAGE, error);
    }
}

/// Takes the last snapshot, when the daemon stops.
pub struct TakeSnapshot;

impl Command for TakeSnapshot {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        if controller.state.intent.config.snapshot.every.is_none() {
            return;
        }
        // Skipped while an earlier snapshot may still be written.
        let taken = job(controller).take("last");
        let kept = taken.and_then(Snapshot::keep);
        NoteSnapshot(kept).run(controller);
        let saved = controller.keys.save();
        NoteKeys(saved).run(controller);
    }
}
