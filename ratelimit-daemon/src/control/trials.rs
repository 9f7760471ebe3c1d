//! The texts in force, and the trial that they may be on: a configuration holds for a time, and then the one before comes back unless
//! somebody confirms it.

use std::path::{Path, PathBuf};

use ratelimit_core::{
    api::{ApplyRequest, Attempt, Refused},
    config::{self, Config, File},
    diagnostic::Diagnostic,
};

use super::{
    candidate::{Candidate, Measure},
    configured_lists,
    kept::Kept,
    list_files::ListFile,
    trial::{self, Trial},
};
use crate::clock;

/// The texts in force, and the trial that they may be on.
pub struct Trials {
    pub(super) kept: Kept<Trial>,
    /// The file that the daemon reads when it starts; `None` when it was started without one.
    main: Option<PathBuf>,
    pub(super) texts: Vec<File>,
    pub(super) trial: Option<Trial>,
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

    pub(super) fn pending(&self) -> Result<Trial, Refused> {
        let trial = self.trial.clone().filter(Trial::is_pending);
        trial.ok_or_else(|| {
            Refused::because("no configuration waits for its confirmation")
                .hint("`rlctl apply FILE --confirm 60s` tries one; `rlctl status` says what became of the last")
        })
    }

    /// The file that a reload begins with.
    ///
    /// # Errors
    ///
    /// When there is to be no reload.
    pub fn reloaded_file(&self) -> Result<PathBuf, Refused> {
        self.require_none_pending()?;
        self.main().map(Path::to_owned).ok_or_else(|| {
            Refused::because(
                "the configuration came from the command line: there is no file to read again",
            )
        })
    }

    /// What a request to try a configuration is measured by.
    ///
    /// # Errors
    ///
    /// When none can be tried.
    pub fn measure(&self, in_force: &Config, is_root: bool) -> Result<Measure, Refused> {
        self.require_none_pending()?;
        let main = self.main().map(Path::to_owned).ok_or_else(|| {
            Refused::because("the daemon was started without a configuration file: there is none to come back to")
                .hint("start it with --config FILE")
        })?;
        Ok(Measure {
            main,
            in_force: (!is_root).then(|| in_force.clone()),
        })
    }

    /// The files of the lists that come back with the configuration before the one on trial.
    ///
    /// # Errors
    ///
    /// When there is none, or the one before is not understood.
    pub fn returning_lists(&self, in_force: &Config) -> Result<Vec<ListFile>, Refused> {
        let (before, _) = before(&self.pending()?)?;
        let files = configured_lists::files(&before);
        Ok(files
            .filter(|file| in_force.lists.get(&*file.name) != Some(&file.config))
            .collect())
    }

    /// Whether the time of a trial is over, so that the configuration before is to come back.
    pub fn is_over(&mut self) -> bool {
        let Trials { kept, trial, .. } = self;
        kept.catch_up(trial.as_ref());
        let trial = trial.as_ref();
        trial.is_some_and(|trial| trial.is_over(clock::now()))
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
pub fn left_of(trial: &Trial) -> Option<Trial> {
    let disk = config::read(&trial.main).unwrap_or_default();
    trial.is_of(&disk).then(|| trial.clone())
}

/// The configuration before a trial.
pub fn before(trial: &Trial) -> Result<(Config, Vec<Diagnostic>), Refused> {
    config::parse(&trial.before).map_err(|error| {
        Refused::because(format!(
            "the configuration before is not understood: {error}"
        ))
    })
}
