//! `rlctl apply`: a configuration holds for a time, and then the one before comes back unless somebody confirms it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_core::{
    api::{Applied, ApplyRequest, Attempt, Outcome, Refused},
    config::{self, Config, File},
    diagnostic::Diagnostic,
};
use tracing::{info, warn};

use super::{
    candidate::{Candidate, Measure},
    configured_lists::{self, ConfiguredLists},
    controller::Controller,
    kept::Kept,
    list_files::ListFile,
    own_files,
    trial::{self, Trial},
};
use crate::clock;

/// The shortest and the longest trial, in seconds: time to type a word, and a day.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;

/// The texts in force, and the trial that they may be on.
pub struct Trials {
    kept: Kept<Trial>,
    /// The file that the daemon reads when it starts; `None` when it was started without one.
    main: Option<PathBuf>,
    texts: Vec<File>,
    trial: Option<Trial>,
}

impl Trials {
    /// Those of the configuration that the daemon starts with.
    pub fn restore(config: &Config, directory: &Path) -> Self {
        let kept = Trial::kept(directory);
        // What is damaged was told by `resume`, and does not hold.
        let trial = kept.read().ok().flatten();
        let main = trial.as_ref().map(|trial| trial.main.clone());
        Self {
            main: main.or_else(|| config.files.first().cloned()),
            texts: trial::texts(config, trial.as_ref()),
            kept,
            trial: trial.as_ref().and_then(left_of),
        }
    }

    /// Takes notice of the texts that the daemon started with, unless a trial says which hold.
    pub fn started_with(&mut self, texts: Vec<File>) {
        if self.trial.is_none() && !texts.is_empty() {
            self.texts = texts;
        }
    }

    /// The texts in force; `None` while they are on trial.
    pub fn settled(&self) -> Option<&[File]> {
        let is_pending = self.trial.as_ref().is_some_and(Trial::is_pending);
        (!is_pending).then_some(self.texts.as_slice())
    }

    /// The file that the daemon reads when it starts.
    pub fn main(&self) -> Option<&Path> {
        self.main.as_deref()
    }

    /// The last trial, as far as it matters.
    pub fn attempt(&self) -> Option<Attempt> {
        self.trial.as_ref().map(Trial::attempt)
    }

    /// Refuses what would put another configuration under the one that is tried.
    pub fn require_none_pending(&self) -> Result<(), Refused> {
        match self.trial.as_ref().filter(|trial| trial.is_pending()) {
            None => Ok(()),
            Some(trial) => Err(Refused::because(format!(
                "{} waits for its confirmation",
                trial.attempt().file
            ))
            .hint("`rlctl confirm` keeps it, `rlctl rollback` takes it back")),
        }
    }

    /// Whether the limits of a class that only the configuration before has may be set: it may come back.
    pub fn before(&self) -> Option<Config> {
        let trial = self.trial.as_ref().filter(|trial| trial.is_pending())?;
        config::parse(&trial.before).ok().map(|(config, _)| config)
    }

    /// Takes notice of texts that were put in force from disk.
    pub fn reloaded(&mut self, texts: Vec<File>) {
        self.texts = texts;
        self.trial = None;
        self.kept.keep(None);
    }

    /// Why the state directory says something else.
    pub fn behind(&self) -> Option<&str> {
        self.kept.behind()
    }

    fn pending(&self) -> Result<Trial, Refused> {
        let trial = self.trial.clone().filter(Trial::is_pending);
        trial.ok_or_else(|| {
            Refused::because("no configuration waits for its confirmation")
                .hint("`rlctl apply FILE --confirm 60s` tries one; `rlctl status` says what became of the last")
        })
    }
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

/// What is left of a trial that has ended: it matters as long as the file on the disk says something else.
fn left_of(trial: &Trial) -> Option<Trial> {
    let disk = config::read(&trial.main).unwrap_or_default();
    trial.is_of(&disk).then(|| trial.clone())
}

impl Controller {
    /// What a request to try a configuration is measured by.
    ///
    /// # Errors
    ///
    /// When none can be tried.
    pub(super) fn measure(&self, is_root: bool) -> Result<Measure, Refused> {
        self.trials.require_none_pending()?;
        let main = self.trials.main().map(Path::to_owned).ok_or_else(|| {
            Refused::because("the daemon was started without a configuration file: there is none to come back to")
                .hint("start it with --config FILE")
        })?;
        Ok(Measure {
            main,
            in_force: (!is_root).then(|| self.state.intent.config.clone()),
        })
    }

    /// Reads a configuration and puts it on trial.
    ///
    /// # Errors
    ///
    /// Why the configuration before stays in force.
    pub fn apply(&mut self, request: ApplyRequest, author: &str) -> Result<Applied, Refused> {
        let measure = self.measure(true)?;
        let candidate = Candidate::of_request(&request, &measure)?;
        let attempted = Attempted {
            request,
            candidate,
            measure,
        };
        self.try_out(attempted, author)
    }

    /// Puts a configuration on trial: it holds at once, and is gone at the end unless it is confirmed.
    ///
    /// # Errors
    ///
    /// Why the configuration before stays in force.
    pub fn try_out(&mut self, attempted: Attempted, author: &str) -> Result<Applied, Refused> {
        let Attempted {
            request,
            candidate,
            measure,
        } = attempted;
        self.trials.require_none_pending()?;
        let duration = duration(request.seconds)?;
        if measure.in_force.is_some() {
            // What is in force may be another one by now.
            own_files::require_known(&self.state.intent.config, &candidate.config)?;
        }
        let until = clock::after(duration);
        let trial = Trial {
            main: measure.main,
            before: self.trials.texts.clone(),
            after: candidate.texts.clone(),
            outcome: Outcome::Pending {
                until: clock::to_wall(until),
            },
            until_boot_ns: until.as_nanos(),
            boot: clock::boot_id(),
        };
        // Written down first: if the daemon ends now, the configuration before comes back too.
        self.trials.kept.replace(Some(&trial))?;
        let changes = match self.replace_with(candidate.config, candidate.lists) {
            Ok(changes) => changes,
            Err(refused) => {
                let Trials { kept, trial, .. } = &mut self.trials;
                kept.keep(trial.as_ref());
                return Err(refused);
            }
        };
        self.trials.texts = candidate.texts;
        let attempt = trial.attempt();
        self.trials.trial = Some(trial);
        info!(
            file = request.file,
            author,
            ?duration,
            "configuration on trial"
        );
        Ok(Applied { changes, attempt })
    }

    /// Keeps the configuration that is on trial.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn confirm(&mut self, author: &str) -> Result<Attempt, Refused> {
        let mut trial = self.trials.pending()?;
        trial.outcome = Outcome::Confirmed {
            at: Timestamp::now(),
        };
        let (attempt, left) = (trial.attempt(), left_of(&trial));
        // What is confirmed and not written down would be gone at the next start: then it is not confirmed.
        self.trials.kept.replace(left.as_ref())?;
        self.trials.trial = left;
        self.keep_last_good();
        info!(file = attempt.file, author, "configuration confirmed");
        Ok(attempt)
    }

    /// The files of the lists that come back with the configuration before the one on trial.
    ///
    /// # Errors
    ///
    /// When there is none, or the one before is not understood.
    pub(super) fn returning_lists(&self) -> Result<Vec<ListFile>, Refused> {
        let (before, _) = before(&self.trials.pending()?)?;
        let files = configured_lists::files(&before);
        let in_force = &self.state.intent.config.lists;
        Ok(files
            .filter(|file| in_force.get(&*file.name) != Some(&file.config))
            .collect())
    }

    /// Reads the lists of the configuration before the one on trial, and takes that back.
    ///
    /// # Errors
    ///
    /// As [`take_back`](Self::take_back).
    pub fn roll_back(&mut self, author: &str) -> Result<Attempt, Refused> {
        let lists = ConfiguredLists::read_some(self.returning_lists()?);
        self.take_back(lists, author)
    }

    /// Takes the configuration back that is on trial. What was before comes back, whatever became of files since: lists that could
    /// not be read stay as they are.
    ///
    /// # Errors
    ///
    /// When there is none, or the one before does not fit any more.
    pub fn take_back(&mut self, lists: ConfiguredLists, author: &str) -> Result<Attempt, Refused> {
        let mut trial = self.trials.pending()?;
        let (before, _) = before(&trial)?;
        self.replace_with(before, lists)?;
        trial.outcome = Outcome::RolledBack {
            at: Timestamp::now(),
        };
        let (attempt, left) = (trial.attempt(), left_of(&trial));
        self.trials.texts = trial.before;
        self.trials.kept.keep(left.as_ref());
        self.trials.trial = left;
        warn!(
            file = attempt.file,
            author, "configuration rolled back: the one before holds"
        );
        Ok(attempt)
    }

    /// Whether the time of a trial is over, so that the configuration before is to come back.
    pub fn is_trial_over(&mut self) -> bool {
        let Trials { kept, trial, .. } = &mut self.trials;
        kept.catch_up(trial.as_ref());
        let trial = trial.as_ref();
        trial.is_some_and(|trial| trial.is_over(clock::now()))
    }

    /// Takes a configuration back whose time is over.
    pub fn end_trial(&mut self, lists: ConfiguredLists) {
        if let Err(refused) = self.take_back(lists, "the end of its trial") {
            warn!(
                error = refused.error,
                "a configuration that nobody confirmed could not be taken back; trying again"
            );
        }
    }
}

/// The configuration before a trial.
fn before(trial: &Trial) -> Result<(Config, Vec<Diagnostic>), Refused> {
    config::parse(&trial.before).map_err(|error| {
        Refused::because(format!(
            "the configuration before is not understood: {error}"
        ))
    })
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
