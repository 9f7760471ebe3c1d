//! A configuration that may take the place of the one in force: its texts and the files of its lists, read.
//!
//! Reading needs nothing of the controller and takes as long as a file system does, so it is done beside it.

use std::path::{Path, PathBuf};

use ratelimit_core::{
    api::{ApplyRequest, Refused},
    config::{self, Config, ConfigError, File},
};

use super::{
    configured_lists::ConfiguredLists,
    handle::{Handle, Unanswered},
    own_files,
};

/// What was read.
pub struct Candidate {
    pub(super) texts: Vec<File>,
    pub(super) config: Config,
    pub(super) lists: ConfiguredLists,
}

/// What a request to try a configuration is measured by.
pub struct Measure {
    /// The file that the daemon reads when it starts.
    pub(super) main: PathBuf,
    /// The configuration in force, where only root may name files that it does not.
    pub(super) in_force: Option<Config>,
}

/// A configuration that somebody tries, read.
pub struct Attempted {
    /// Who tries what, and for how long.
    pub request: ApplyRequest,
    /// What it says.
    pub candidate: Candidate,
    /// What it was measured by.
    pub measure: Measure,
}

impl Candidate {
    /// What the files say.
    ///
    /// # Errors
    ///
    /// What is wrong with them, or with the files of the lists.
    pub fn of_files(main: &Path) -> Result<Self, Refused> {
        let invalid =
            |error: ConfigError| Refused::because(error.unquoted(None)).quoting(error.to_string());
        let texts = config::read(main).map_err(invalid)?;
        let (config, _) = config::parse(&texts).map_err(invalid)?;
        Self::with_lists(texts, config)
    }

    /// What a request says.
    ///
    /// # Errors
    ///
    /// The same, or what only root may try.
    pub fn of_request(request: &ApplyRequest, measure: &Measure) -> Result<Self, Refused> {
        let Measure { main, in_force } = measure;
        if let Some(in_force) = in_force {
            own_files::require(request, main, in_force)?;
        }
        let file = File {
            path: request.file.clone().into(),
            text: request.text.clone(),
        };
        let invalid = |error: ConfigError| Refused::because(error.to_string());
        let texts = config::read_with(file, main).map_err(invalid)?;
        let (config, _) = config::parse(&texts).map_err(invalid)?;
        Self::with_lists(texts, config)
    }

    fn with_lists(texts: Vec<File>, config: Config) -> Result<Self, Refused> {
        let lists = ConfiguredLists::read(&config)?;
        Ok(Self {
            texts,
            config,
            lists,
        })
    }
}

/// Reads the files again beside the controller, for [`Reload`](super::commands::Reload).
///
/// # Errors
///
/// When the controller has stopped.
pub async fn read_again(controller: &Handle) -> Result<Result<Candidate, Refused>, Unanswered> {
    let main = controller.ask(|controller| controller.trials.reloaded_file());
    match main.await? {
        Ok(main) => Ok(beside(move || Candidate::of_files(&main)).await),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Reads what a request to try a configuration names, for [`Apply`](super::commands::Apply).
///
/// # Errors
///
/// When the controller has stopped.
pub async fn read_request(
    controller: &Handle,
    request: ApplyRequest,
    is_root: bool,
) -> Result<Result<Attempted, Refused>, Unanswered> {
    let measure = controller.ask(move |controller| {
        let in_force = &controller.state.intent.config;
        controller.trials.measure(in_force, is_root)
    });
    match measure.await? {
        Ok(measure) => Ok(beside(move || {
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

/// Reads the lists that come back with the configuration before the one on trial, for [`RollBack`](super::commands::RollBack).
///
/// # Errors
///
/// When the controller has stopped.
pub async fn read_before(
    controller: &Handle,
) -> Result<Result<ConfiguredLists, Refused>, Unanswered> {
    let returning = controller.ask(|controller| {
        let in_force = &controller.state.intent.config;
        controller.trials.returning_lists(in_force)
    });
    match returning.await? {
        Ok(files) => Ok(beside(move || Ok(ConfiguredLists::read_some(files))).await),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Runs what waits for a file system where nobody waits for it.
async fn beside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(Refused::because(format!("reading files: {error}"))))
}
