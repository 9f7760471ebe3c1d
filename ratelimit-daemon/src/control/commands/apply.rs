//! `rlctl apply`, `rlctl confirm`, `rlctl rollback`, and the end of a trial.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ratelimit_core::api::{Applied, Attempt, Outcome, Refused};
use tracing::{info, warn};

use super::Command;
use crate::{
    clock,
    control::{
        configured_lists::ConfiguredLists,
        controller::Controller,
        own_files,
        trial::Trial,
        trials::{Attempted, Trials, before, left_of},
    },
};

/// The shortest and the longest trial, in seconds: time to type a word, and a day.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;

/// Puts a configuration on trial: it holds at once, and is gone at the end unless it is confirmed.
pub struct Apply {
    /// What was read.
    pub attempted: Result<Attempted, Refused>,
    /// Who asks.
    pub author: Arc<str>,
}

impl Command for Apply {
    type Answer = Result<Applied, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { attempted, author } = self;
        let author = &*author;
        let Attempted {
            request,
            candidate,
            measure,
        } = attempted?;
        controller.trials.require_none_pending()?;
        let duration = duration(request.seconds)?;
        if measure.in_force.is_some() {
            // What is in force may be another one by now.
            own_files::require_known(&controller.state.intent.config, &candidate.config)?;
        }
        let until = clock::after(duration);
        let trial = Trial {
            main: measure.main,
            before: controller.trials.texts.clone(),
            after: candidate.texts.clone(),
            outcome: Outcome::Pending {
                until: clock::to_wall(until),
            },
            until_boot_ns: until.as_nanos(),
            boot: clock::boot_id(),
        };
        // Written down first: if the daemon ends now, the configuration before comes back too.
        controller.trials.kept.replace(Some(&trial))?;
        let changes = match controller.replace_with(candidate.config, candidate.lists) {
            Ok(changes) => changes,
            Err(refused) => {
                let Trials { kept, trial, .. } = &mut controller.trials;
                kept.keep(trial.as_ref());
                return Err(refused);
            }
        };
        controller.trials.texts = candidate.texts;
        let attempt = trial.attempt();
        controller.trials.trial = Some(trial);
        info!(
            file = request.file,
            author,
            ?duration,
            "configuration on trial"
        );
        Ok(Applied { changes, attempt })
    }
}

/// Keeps the configuration that is on trial.
pub struct Confirm {
    /// Who asks.
    pub author: Arc<str>,
}

impl Command for Confirm {
    type Answer = Result<Attempt, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { author } = self;
        let author = &*author;
        let mut trial = controller.trials.pending()?;
        trial.outcome = Outcome::Confirmed {
            at: Timestamp::now(),
        };
        let (attempt, left) = (trial.attempt(), left_of(&trial));
        // What is confirmed and not written down would be gone at the next start: then it is not confirmed.
        controller.trials.kept.replace(left.as_ref())?;
        controller.trials.trial = left;
        controller.keep_last_good();
        info!(file = attempt.file, author, "configuration confirmed");
        Ok(attempt)
    }
}

/// Takes the configuration back that is on trial. What was before comes back, whatever became of files since.
pub struct RollBack {
    /// The lists that come back, as they were read.
    pub lists: Result<ConfiguredLists, Refused>,
    /// Who asks.
    pub author: Arc<str>,
}

impl Command for RollBack {
    type Answer = Result<Attempt, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { lists, author } = self;
        take_back(controller, lists?, &author)
    }
}

/// Takes a configuration back whose time is over. How it went is logged.
pub struct EndTrial {
    /// The lists that come back, as they were read.
    pub lists: ConfiguredLists,
}

impl Command for EndTrial {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { lists } = self;
        if let Err(refused) = take_back(controller, lists, "the end of its trial") {
            warn!(
                error = refused.error,
                "a configuration that nobody confirmed could not be taken back; trying again"
            );
        }
    }
}

/// Whether the time of a trial is over, so that the configuration before is to come back.
pub struct IsTrialOver;

impl Command for IsTrialOver {
    type Answer = bool;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.trials.is_over()
    }
}

/// Lists that could not be read stay as they are.
fn take_back(
    controller: &mut Controller,
    lists: ConfiguredLists,
    author: &str,
) -> Result<Attempt, Refused> {
    let mut trial = controller.trials.pending()?;
    let (before, _) = before(&trial)?;
    controller.replace_with(before, lists)?;
    trial.outcome = Outcome::RolledBack {
        at: Timestamp::now(),
    };
    let (attempt, left) = (trial.attempt(), left_of(&trial));
    controller.trials.texts = trial.before;
    controller.trials.kept.keep(left.as_ref());
    controller.trials.trial = left;
    warn!(
        file = attempt.file,
        author, "configuration rolled back: the one before holds"
    );
    Ok(attempt)
}

fn duration(seconds: f64) -> Result<Duration, Refused> {
    if SECONDS.contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(Refused::because(format!(
        "{seconds} seconds to confirm are not between a second and a day"
    ))
    .hint("write `--confirm 60s`"))
}
