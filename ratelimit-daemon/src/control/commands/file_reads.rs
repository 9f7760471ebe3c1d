//! Reads files on other threads, so that the controller never waits for a file system.

use ratelimit_core::api::{ApplyRequest, Refused};

use crate::control::{
    configuration::candidate::{Attempted, Candidate},
    controller::handle::{Handle, Unanswered},
    lists::configured::ConfiguredLists,
};

/// Reads the configuration files again, for [`Reload`](super::Reload).
pub async fn read_files(controller: &Handle) -> Result<Result<Candidate, Refused>, Unanswered> {
    match controller.ask(|it| it.feeds.trials.reloaded_file()).await? {
        Ok(main) => Ok(on_blocking_thread(move || Candidate::of_files(&main)).await),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Reads the files that a request to try a configuration names, for [`Apply`](super::Apply).
pub async fn read_request(
    controller: &Handle,
    request: ApplyRequest,
    is_root: bool,
) -> Result<Result<Attempted, Refused>, Unanswered> {
    let measure =
        controller.ask(move |it| it.feeds.trials.measure(&it.state.intent.config, is_root));
    match measure.await? {
        Ok(measure) => Ok(on_blocking_thread(move || {
            let candidate = Candidate::of_request(&request, &measure)?;
            Ok(Attempted {
                request,
                candidate,
                measure,
            })
        })
        .await),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Reads the lists of the configuration before the trial, for [`RollBack`](super::RollBack).
pub async fn read_previous(
    controller: &Handle,
) -> Result<Result<ConfiguredLists, Refused>, Unanswered> {
    let files = controller.ask(|it| it.feeds.trials.returning_lists(&it.state.intent.config));
    match files.await? {
        Ok(files) => Ok(on_blocking_thread(move || Ok(ConfiguredLists::read_some(files).0)).await),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Runs blocking file access on a thread of its own.
async fn on_blocking_thread<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(Refused::because(format!("reading files: {error}"))))
}
