//! The record of a trial on disk, so that the previous configuration returns even if the daemon
//! dies.
//!
//! It holds the texts of both configurations, because the files may be overwritten: `rlctl apply
//! /etc/ratelimit/config.toml` does so before the trial begins. The result is kept as long as the
//! files on disk differ from it. So a configuration that was rolled back does not return at the
//! next start, and a confirmed one stays.
//!
//! An unconfirmed trial ends with the previous configuration, whether a daemon runs at the deadline
//! or starts after it. Changes of the files during a trial take effect at the next reload or start.

use std::path::{Path, PathBuf};

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Attempt, TrialOutcome},
    config::{self, Config, File},
};
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use crate::{clock, control::persistence::state_file::StateFile};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Trial {
    /// The file that the daemon reads at start.
    pub main: PathBuf,
    /// The texts in force before the trial.
    pub before: Vec<File>,
    /// The texts on trial.
    pub after: Vec<File>,
    /// The record of an earlier trial whose result is not on disk yet.
    #[serde(default)]
    pub beneath: Option<Box<Trial>>,
    pub outcome: TrialOutcome,
    /// The end of the trial on the monotonic clock of this boot.
    pub until_boot_ns: u64,
    /// The ID of this boot.
    pub boot: String,
}

impl Trial {
    /// Opens the file of the record.
    pub fn kept(directory: &Path) -> StateFile<Self> {
        StateFile::new(directory, "trial.json")
    }

    /// Returns the texts in force.
    pub fn in_force(&self) -> &[File] {
        match self.outcome {
            TrialOutcome::Pending { .. } | TrialOutcome::Confirmed { .. } => &self.after,
            TrialOutcome::RolledBack { .. } => &self.before,
        }
    }

    /// Returns whether the trial is neither confirmed nor rolled back.
    pub fn is_pending(&self) -> bool {
        matches!(self.outcome, TrialOutcome::Pending { .. })
    }

    /// Returns whether the trial has expired. A reboot ends it.
    pub fn is_over(&self, now: Instant) -> bool {
        self.is_pending() && (self.boot != clock::boot_id() || now.as_nanos() >= self.until_boot_ns)
    }

    /// Returns whether the record is still needed. It is not if the files on disk are those in
    /// force, or those of no trial that it knows.
    pub fn is_of(&self, disk: &[File]) -> bool {
        match self.outcome {
            TrialOutcome::Pending { .. } => true,
            TrialOutcome::RolledBack { .. } => {
                have_same_texts(disk, &self.after) || self.earlier(disk).is_some()
            }
            TrialOutcome::Confirmed { .. } => have_same_texts(disk, &self.before),
        }
    }

    /// Returns the earlier trial that determines the texts in force once this one is rolled back.
    pub fn earlier(&self, disk: &[File]) -> Option<&Self> {
        self.beneath.as_deref().filter(|trial| trial.is_of(disk))
    }

    /// Returns the trial for a report.
    pub fn attempt(&self) -> Attempt {
        let disk = config::read(&self.main).unwrap_or_default();
        let file = self
            .after
            .first()
            .map(|file| file.path.display().to_string());
        Attempt {
            file: file.unwrap_or_default(),
            main: self.main.display().to_string(),
            installed: have_same_texts(&disk, &self.after),
            outcome: self.outcome,
        }
    }
}

/// Returns the configuration to start with: the one on disk, unless a trial decides otherwise. If
/// the record cannot be written, the next start comes to the same result.
pub fn resume(disk: Config, directory: &Path) -> Config {
    let kept = Trial::kept(directory);
    let trial = kept.read().unwrap_or_else(|error| {
        error!(
            error = format!("{error:#}"),
            "the trial of a configuration was lost; using the files"
        );
        None
    });
    let Some(mut trial) = trial else {
        return disk;
    };
    let ends_here = trial.is_over(clock::now());
    if ends_here {
        let file = trial.attempt().file;
        warn!(
            file,
            "the configuration was not confirmed in time; rolling back"
        );
        trial.outcome = TrialOutcome::RolledBack { at: clock::wall() };
    }
    let is_of_main = disk.files.first() == Some(&trial.main);
    let holds = is_of_main && trial.is_of(&config::read(&trial.main).unwrap_or_default());
    // A trial that ends now is reported again.
    if holds || is_of_main && ends_here {
        report(kept.write(&trial));
    } else {
        report(kept.remove());
    }
    if !holds {
        return disk;
    }
    match config::parse(trial.in_force()) {
        Ok((config, _)) => {
            let main = trial.main.display();
            match trial.outcome {
                TrialOutcome::Pending { until } => {
                    warn!(%until, "a trial is in progress: confirm it with `rlctl confirm`");
                }
                TrialOutcome::RolledBack { .. } => {
                    warn!(%main, "rolled back to the previous configuration");
                }
                TrialOutcome::Confirmed { .. } => {
                    warn!(%main, "config.toml differs from the confirmed configuration, which \
                                  stays active");
                }
            }
            config
        }
        Err(error) => {
            error!(%error, "cannot parse the configuration of a trial; using the files");
            report(kept.remove());
            disk
        }
    }
}

fn report(written: anyhow::Result<()>) {
    if let Err(error) = written {
        let error = format!("{error:#}");
        warn!(error, "cannot save the result of a trial");
    }
}

/// Returns the configuration to roll back to, during a trial.
pub fn before(directory: &Path) -> Option<Config> {
    let trial = Trial::kept(directory).read().ok().flatten();
    let trial = trial.filter(Trial::is_pending)?;
    config::parse(&trial.before).ok().map(|(config, _)| config)
}

/// Returns the texts of a configuration. Empty if the files on disk cannot be read.
pub fn texts(config: &Config, trial: Option<&Trial>) -> Vec<File> {
    match (trial, config.files.first()) {
        (Some(trial), _) => trial.in_force().to_vec(),
        (None, Some(main)) => config::read(main).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

/// Compares the texts of files, but not their paths.
pub fn have_same_texts(files: &[File], others: &[File]) -> bool {
    let texts =
        |files: &[File]| -> Vec<String> { files.iter().map(|file| file.text.clone()).collect() };
    texts(files) == texts(others)
}
