//! `rlctl apply`, `rlctl confirm`, `rlctl rollback`, and the end of a trial.

use std::{sync::Arc, time::Duration};

use ratelimit_core::api::{Applied, Attempt, Refused, TrialOutcome, What};
use tracing::warn;

use super::{Command, replace::replace};
use crate::control::{
    configuration::{candidate::Attempted, trial_permission},
    controller::Controller,
    lists::configured::ConfiguredLists,
};

/// The shortest and the longest trial, in seconds: long enough to type a word, and a day.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;

/// Puts a configuration on trial. It applies at once, and is rolled back at the end unless it is
/// confirmed.
pub struct Apply {
    /// The configuration to try, already read.
    pub attempted: Result<Attempted, Refused>,
    /// The user who asked.
    pub author: Arc<str>,
}

impl Command for Apply {
    type Answer = Result<Applied, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { attempted, author } = self;
        let attempted = attempted?;
        let (candidate, measure) = (attempted.candidate, attempted.measure);
        let duration = duration(attempted.request.seconds)?;
        if measure.in_force.is_some() {
            // The configuration in force may have changed since the request was read.
            trial_permission::require_known(&controller.state.intent.config, &candidate.config)?;
        }
        let trials = &mut controller.feeds.trials;
        let (attempt, next) = trials.begin(candidate, measure.main, duration)?;
        let changes = replace(controller, next, true)?;
        if let TrialOutcome::Pending { until } = attempt.outcome {
            controller.state.reports.record(What::TrialBegan {
                file: attempt.file.clone(),
                until,
                changes: changes.clone(),
                by: author,
            });
        }
        Ok(Applied { changes, attempt })
    }
}

/// Keeps the configuration that is on trial.
pub struct Confirm(pub Arc<str>);

impl Command for Confirm {
    type Answer = Result<Attempt, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(author) = self;
        let attempt = controller.feeds.trials.confirm()?;
        controller.feeds.trials.keep_last_good();
        controller.state.reports.record(What::TrialConfirmed {
            file: attempt.file.clone(),
            by: author,
        });
        Ok(attempt)
    }
}

/// Rolls back the configuration on trial to the one before it, even if the files have changed
/// since.
pub struct RollBack {
    /// The lists of the previous configuration, already read.
    pub lists: Result<ConfiguredLists, Refused>,
    /// The user who asked.
    pub author: Arc<str>,
    /// Others undo a reload only if they may apply the configuration before it.
    pub is_root: bool,
}

impl Command for RollBack {
    type Answer = Result<Attempt, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self {
            lists,
            author,
            is_root,
        } = self;
        if !is_root && let Some(before) = controller.feeds.trials.before_reload()? {
            trial_permission::require_known(&controller.state.intent.config, &before)?;
        }
        take_back(controller, lists?, Some(author))
    }
}

/// Ends an expired trial: rolls back with the lists that were read, and logs the result.
pub struct EndTrial(pub ConfiguredLists);

impl Command for EndTrial {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(lists) = self;
        if let Err(refused) = take_back(controller, lists, None) {
            warn!(
                error = refused.error,
                "cannot roll back an unconfirmed configuration; retrying"
            );
        }
    }
}

/// Returns whether the trial has expired and is to be rolled back.
pub struct IsTrialOver;

impl Command for IsTrialOver {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.feeds.trials.is_over()
    }
}

fn take_back(
    controller: &mut Controller,
    lists: ConfiguredLists,
    by: Option<Arc<str>>,
) -> Result<Attempt, Refused> {
    let (attempt, next) = controller.feeds.trials.roll_back(lists)?;
    // Programs that an operator detached stay detached.
    replace(controller, next, false)?;
    controller.state.reports.record(What::TrialRolledBack {
        file: attempt.file.clone(),
        by,
    });
    Ok(attempt)
}

fn duration(seconds: f64) -> Result<Duration, Refused> {
    if SECONDS.contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(Refused::because(format!(
        "the trial of {seconds} s is not between 1 second and 1 day"
    ))
    .hint("write `--confirm 60s`"))
}
