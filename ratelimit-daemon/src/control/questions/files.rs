//! Which files are to be read beside the controller.

use std::path::PathBuf;

use ratelimit_core::api::Refused;

use crate::control::{
    candidate::Measure, controller::Controller, list_files::ListFile, question::Question,
};

/// The file of the configuration that a reload reads.
#[derive(Clone, Copy)]
pub struct ReloadedFile;

impl Question for ReloadedFile {
    type Answer = Result<PathBuf, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller.trials.reloaded_file()
    }
}

/// What a configuration on trial is measured by.
#[derive(Clone, Copy)]
pub struct MeasureOfTrial {
    /// Whether files are quoted for who asks.
    pub is_root: bool,
}

impl Question for MeasureOfTrial {
    type Answer = Result<Measure, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller
            .trials
            .measure(&controller.state.intent.config, self.is_root)
    }
}

/// The lists that come back with the configuration before the one on trial.
#[derive(Clone, Copy)]
pub struct ReturningLists;

impl Question for ReturningLists {
    type Answer = Result<Vec<ListFile>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller
            .trials
            .returning_lists(&controller.state.intent.config)
    }
}
