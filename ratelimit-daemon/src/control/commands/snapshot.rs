//! Snapshots of usage, from time to time and as the daemon ends.

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
        sources::snapshot::{self, Job, Taken},
    },
};

/// What does not work where a snapshot cannot be written.
const SNAPSHOT: &str = "usage snapshot";

/// How often a snapshot is to be taken; `None` for never.
pub async fn snapshots_every(controller: &Handle) -> Result<Option<Duration>, Unanswered> {
    controller
        .ask(|it| it.state.intent.config.snapshot.every)
        .await
}

/// Takes a snapshot beside the controller, which neither reads the tables nor waits for the disk.
pub async fn take_snapshot(controller: &Handle) -> Result<(), Unanswered> {
    let job = controller.ask(job).await?;
    let policies = Arc::clone(&job.policies);
    let taken = beside(move || job.take("new")).await;
    // Words that were read meanwhile may be those of other limits.
    let is_current = controller
        .ask(move |it| Arc::ptr_eq(&it.policies(), &policies))
        .await?;
    let kept = match taken {
        Ok(taken) if is_current => beside(move || taken.keep()).await,
        Ok(taken) => beside(move || taken.discard()).await,
        Err(error) => Err(error),
    };
    controller.call(NoteSnapshot(kept)).await
}

async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn job(controller: &Controller) -> Job {
    let state = &controller.state;
    let now = clock::now();
    Job {
        tables: state.enforcer.datapath().sources(),
        policies: controller.policies(),
        now: (now, state.kept.store.time(now)),
        min_window: state.intent.config.snapshot.min_window,
        file: snapshot::file(&state.intent.config.paths.state),
    }
}

/// Takes notice of how that went.
struct NoteSnapshot(anyhow::Result<Taken>);

impl Command for NoteSnapshot {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let error = match self.0 {
            Ok(Taken {
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

/// Takes the last snapshot, as the daemon ends.
pub struct TakeSnapshot;

impl Command for TakeSnapshot {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        if controller.state.intent.config.snapshot.every.is_none() {
            return;
        }
        // Not where one that was begun before may still be written.
        let taken = job(controller).take("last");
        let kept = taken.and_then(Taken::keep);
        NoteSnapshot(kept).run(controller);
    }
}
