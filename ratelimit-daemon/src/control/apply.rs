//! `rlctl apply`: a configuration holds for a time, and then the one before comes back unless somebody confirms it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use jiff::Timestamp;
use ratelimit_core::{
    api::{Applied, ApplyRequest, Attempt, Outcome, Refused},
    config::{self, Config, File},
};
use tracing::{info, warn};

use super::{
    configured_lists::ConfiguredLists,
    controller::Controller,
    kept::Kept,
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

/// What is left of a trial that has ended: it matters as long as the file on the disk says something else.
fn left_of(trial: &Trial) -> Option<Trial> {
    let disk = config::read(&trial.main).unwrap_or_default();
    trial.is_of(&disk).then(|| trial.clone())
}

impl Controller {
    /// Puts a configuration on trial: it holds at once, and is gone at the end unless it is confirmed.
    ///
    /// # Errors
    ///
    /// Why the configuration before stays in force.
    pub fn apply(&mut self, request: ApplyRequest, author: &str) -> Result<Applied, Refused> {
        let main = self.trials.main().map(Path::to_owned).ok_or_else(|| {
            Refused::because("the daemon was started without a configuration file: there is none to come back to")
                .hint("start it with --config FILE")
        })?;
        self.trials.require_none_pending()?;
        let duration = duration(request.seconds)?;
        let file = File {
            path: request.file.clone().into(),
            text: request.text,
        };
        let invalid = |error: config::ConfigError| Refused::because(error.to_string());
        let after = config::read_with(file, &main).map_err(invalid)?;
        let (config, _) = config::parse(&after).map_err(invalid)?;
        let until = clock::after(duration);
        let trial = Trial {
            main,
            before: self.trials.texts.clone(),
            after: after.clone(),
            outcome: Outcome::Pending {
                until: clock::to_wall(until),
            },
            until_boot_ns: until.as_nanos(),
            boot: clock::boot_id(),
        };
        // Written down first: if the daemon ends now, the configuration before comes back too.
        self.trials.kept.replace(Some(&trial))?;
        let changes = match self.replace_checked(config) {
            Ok(changes) => changes,
            Err(refused) => {
                let Trials { kept, trial, .. } = &mut self.trials;
                kept.keep(trial.as_ref());
                return Err(refused);
            }
        };
        self.trials.texts = after;
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

    /// Takes the configuration back that is on trial.
    ///
    /// # Errors
    ///
    /// When there is none, or the one before does not fit any more.
    pub fn roll_back(&mut self, author: &str) -> Result<Attempt, Refused> {
        let mut trial = self.trials.pending()?;
        let (before, _) = config::parse(&trial.before)
            .map_err(|error| anyhow!("the configuration before is not understood: {error}"))?;
        // What was before comes back, whatever became of files since.
        let lists = ConfiguredLists::read_some(&before);
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

    /// Takes a configuration back whose time is over.
    pub(super) fn tick_trial(&mut self) {
        let trial = self.trials.trial.as_ref();
        if trial.is_some_and(|trial| trial.is_over(clock::now()))
            && let Err(refused) = self.roll_back("the end of its trial")
        {
            warn!(
                error = refused.error,
                "a configuration that nobody confirmed could not be taken back; trying again"
            );
        }
        let Trials { kept, trial, .. } = &mut self.trials;
        kept.catch_up(trial.as_ref());
    }
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
