//! What is written down of a configuration on trial, so that the one before comes back whatever happens to the daemon.
//!
//! A trial holds the texts of both: the files may be overwritten meanwhile, and with `rlctl apply /etc/ratelimit/config.toml`
//! they are before it begins. What became of it is kept for as long as the files on disk say something else.
//! A configuration that was rolled back does not come back at the next start, and one that was confirmed does not go.
//!
//! A trial that nobody confirmed ends with the configuration before it, whether a daemon runs at
//! its deadline or starts after it. Files that were changed meanwhile count from the next reload or
//! start on, which may be that start.

use std::path::{Path, PathBuf};

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Attempt, Outcome},
    config::{self, Config, File},
};
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use crate::{clock, control::persistence::state_file::StateFile};

/// One trial.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Trial {
    /// The file that the daemon reads when it starts.
    pub main: PathBuf,
    /// What was in force before.
    pub before: Vec<File>,
    /// What is tried.
    pub after: Vec<File>,
    /// What became of it.
    pub outcome: Outcome,
    /// The end of the trial on the monotonic clock of this boot.
    pub until_boot_ns: u64,
    /// The boot of the machine.
    pub boot: String,
}

impl Trial {
    /// Where trials are kept.
    pub fn kept(directory: &Path) -> StateFile<Self> {
        StateFile::new(directory, "trial.json")
    }

    /// The texts in force.
    pub fn in_force(&self) -> &[File] {
        match self.outcome {
            Outcome::Pending { .. } | Outcome::Confirmed { .. } => &self.after,
            Outcome::RolledBack { .. } => &self.before,
        }
    }

    /// Whether nobody has said yet what becomes of it.
    pub fn is_pending(&self) -> bool {
        matches!(self.outcome, Outcome::Pending { .. })
    }

    /// Whether its time is over. A machine that was booted again has been away for long enough.
    pub fn is_over(&self, now: Instant) -> bool {
        self.is_pending() && (self.boot != clock::boot_id() || now.as_nanos() >= self.until_boot_ns)
    }

    /// Whether this is still worth keeping: not where the files say what is in force, or what nobody has tried.
    pub fn is_of(&self, disk: &[File]) -> bool {
        match self.outcome {
            Outcome::Pending { .. } => true,
            Outcome::RolledBack { .. } => say_the_same(disk, &self.after),
            Outcome::Confirmed { .. } => say_the_same(disk, &self.before),
        }
    }

    /// As it is reported.
    pub fn attempt(&self) -> Attempt {
        let disk = config::read(&self.main).unwrap_or_default();
        let file = self
            .after
            .first()
            .map(|file| file.path.display().to_string());
        Attempt {
            file: file.unwrap_or_default(),
            main: self.main.display().to_string(),
            installed: say_the_same(&disk, &self.after),
            outcome: self.outcome,
        }
    }
}

/// The configuration to start with: that on disk, unless a trial says otherwise. What cannot be written down is found again at the
/// next start.
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
        trial.outcome = Outcome::RolledBack { at: clock::wall() };
    }
    let is_of_main = disk.files.first() == Some(&trial.main);
    let holds = is_of_main && trial.is_of(&config::read(&trial.main).unwrap_or_default());
    // The end of one is reported once more.
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
                Outcome::Pending { until } => {
                    warn!(%until, "a trial is in progress: confirm it with `rlctl confirm`");
                }
                Outcome::RolledBack { .. } => {
                    warn!(%main, "rolled back to the previous configuration");
                }
                Outcome::Confirmed { .. } => {
                    warn!(%main, "config.toml differs from the confirmed configuration, which stays active");
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

/// The configuration that may come back, while another one is on trial.
pub fn before(directory: &Path) -> Option<Config> {
    let trial = Trial::kept(directory).read().ok().flatten();
    let trial = trial.filter(Trial::is_pending)?;
    config::parse(&trial.before).ok().map(|(config, _)| config)
}

/// The texts of a configuration: of those on disk none where they cannot be read.
pub fn texts(config: &Config, trial: Option<&Trial>) -> Vec<File> {
    match (trial, config.files.first()) {
        (Some(trial), _) => trial.in_force().to_vec(),
        (None, Some(main)) => config::read(main).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

/// Whether files have the same texts, wherever they stand.
pub fn say_the_same(files: &[File], others: &[File]) -> bool {
    let texts =
        |files: &[File]| -> Vec<String> { files.iter().map(|file| file.text.clone()).collect() };
    texts(files) == texts(others)
}
