//! The texts in force, and trials: a configuration applies for a time, and is then rolled back
//! unless it is confirmed.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_core::{
    api::{Attempt, Code, Refused, ReloadRequest, TrialOutcome, What},
    config::{self, Config, File},
};

use crate::{
    clock,
    control::{
        configuration::{
            candidate::{Candidate, Measure},
            last_good::LastGood,
            trial_record::{self, Trial, have_same_texts},
            warnings::report,
        },
        lists::{
            configured::{self, ConfiguredLists},
            file::ListFile,
        },
        persistence::state_file::StateFile,
        reports::{cause::Cause, journal::Journal},
    },
};

pub struct Trials {
    /// The fallback for a start.
    pub last_good: LastGood,
    kept: StateFile<Trial>,
    /// The file that the daemon reads at start, if any.
    main: Option<PathBuf>,
    texts: Vec<File>,
    pub(crate) trial: Option<Trial>,
    /// The last reload with changes, which `rlctl rollback` can undo like a trial.
    reloaded: Option<Trial>,
}

/// A configuration to put in force.
pub struct Next {
    pub(crate) config: Config,
    pub(crate) lists: ConfiguredLists,
    pub(crate) why: Why,
}

/// The reason for a change of configuration, with the texts or the trial it results in.
pub enum Why {
    /// The files on disk changed. With `force`, it may lock an operator out.
    Reload { texts: Vec<File>, force: bool },
    /// A trial begins.
    Trial(Trial),
    /// A trial is rolled back.
    Rollback(Trial),
}

impl Why {
    /// Returns the cause to report for entries that go with it.
    pub const fn cause(&self) -> Cause<'static> {
        match self {
            Self::Rollback(_) => Cause::Rollback,
            Self::Reload { .. } | Self::Trial(_) => Cause::Origin,
        }
    }
}

impl Trials {
    /// Restores the trial of the configuration at start.
    pub fn restore(config: &Config, directory: &Path) -> Self {
        let kept = Trial::kept(directory);
        // `resume` has already reported and ignored a damaged record.
        let trial = kept.read().ok().flatten();
        let main = trial.as_ref().map(|trial| trial.main.clone());
        let trial = trial.as_ref().and_then(left_of);
        Self {
            main: main.or_else(|| config.files.first().cloned()),
            texts: trial_record::texts(config, trial.as_ref()),
            kept,
            trial,
            reloaded: None,
            last_good: LastGood::new(directory),
        }
    }

    /// Stores the texts in force as the fallback for a start, unless they are on trial.
    pub fn keep_last_good(&mut self) {
        let is_pending = self.trial.as_ref().is_some_and(Trial::is_pending);
        if !is_pending {
            self.last_good.keep(&self.texts);
        }
    }

    /// Reports the end of a trial at whose deadline no daemon ran.
    pub fn report_end(&self, journal: &mut Journal) {
        let ended = self.kept.read().ok().flatten();
        let ended = ended.filter(|trial| matches!(trial.outcome, TrialOutcome::RolledBack { .. }));
        let events = journal.kept();
        let last = events.iter().rev().find(|event| event.what.is_trial());
        let is_open = last.is_some_and(|event| matches!(event.what, What::TrialBegan { .. }));
        if let Some(trial) = ended.filter(|_| is_open) {
            let file = trial.attempt().file;
            journal.record(What::TrialRolledBack { file, by: None });
        }
    }

    /// Records the texts at start, unless a trial determines them.
    pub fn started_with(&mut self, texts: Vec<File>) {
        if self.trial.is_none() && !texts.is_empty() {
            self.texts = texts;
        }
    }

    /// Returns the texts in force. Empty if the daemon was started without a file.
    pub fn texts(&self) -> &[File] {
        &self.texts
    }

    pub fn main(&self) -> Option<&Path> {
        self.main.as_deref()
    }

    /// Returns the last trial, as long as it matters: not if it was confirmed and saved.
    pub fn attempt(&self) -> Option<Attempt> {
        let attempt = self.trial.as_ref()?.attempt();
        let is_kept = matches!(attempt.outcome, TrialOutcome::Confirmed { .. });
        (!is_kept || !attempt.installed).then_some(attempt)
    }

    /// Refuses to change the configuration beneath a pending trial.
    pub fn require_none_pending(&self) -> Result<(), Refused> {
        match self.trial.as_ref().filter(|trial| trial.is_pending()) {
            None => Ok(()),
            Some(trial) => Err(
                Refused::because(format!("{} is on trial", trial.attempt().file))
                    .hint(
                        "keep it with `rlctl confirm`, or restore the previous one with `rlctl \
                         rollback`",
                    )
                    .code(Code::Unsettled),
            ),
        }
    }

    /// Refuses texts that would undo a confirmed configuration.
    fn require_saved(&self, texts: &[File]) -> Result<(), Refused> {
        let is_confirmed = |trial: &&Trial| matches!(trial.outcome, TrialOutcome::Confirmed { .. });
        let trial = self.trial.as_ref().filter(is_confirmed);
        match trial.filter(|trial| have_same_texts(texts, &trial.before)) {
            None => Ok(()),
            Some(trial) => Err(Refused::because(format!(
                "{} was confirmed but not saved: a reload of {} would discard it",
                trial.attempt().file,
                trial.main.display()
            ))
            .hint(
                "save it with `rlctl confirm --save`, or discard it with `rlctl reload --discard`",
            )
            .code(Code::Unsettled)),
        }
    }

    /// Returns the configuration to roll back to unless the trial is confirmed.
    pub fn before(&self) -> Option<Config> {
        let trial = self.trial.as_ref().filter(|trial| trial.is_pending())?;
        config::parse(&trial.before).ok().map(|(config, _)| config)
    }

    /// Records whether a configuration was put in force.
    pub fn settle(&mut self, why: Why, is_in_force: bool) {
        match (why, is_in_force) {
            (Why::Reload { texts, .. }, true) => {
                self.note_reload(&texts);
                self.holds(texts, None);
            }
            (Why::Trial(trial), true) => {
                self.texts.clone_from(&trial.after);
                self.trial = Some(trial);
            }
            (Why::Rollback(trial), true) => {
                let left = left_of(&trial);
                let is_taken_back = |it: &mut Trial| have_same_texts(&it.after, &trial.after);
                self.reloaded.take_if(is_taken_back);
                self.holds(trial.before, left);
            }
            (Why::Trial(_), false) => self.kept.keep(self.trial.as_ref()),
            (Why::Reload { .. } | Why::Rollback(_), false) => {}
        }
    }

    /// Returns the files as they were read, for a reload.
    pub fn reload(&self, candidate: Candidate, request: ReloadRequest) -> Result<Next, Refused> {
        self.require_none_pending()?;
        if !request.discard {
            self.require_saved(&candidate.texts)?;
        }
        report(&candidate.warnings);
        let (config, lists) = (candidate.config, candidate.lists);
        let why = Why::Reload {
            texts: candidate.texts,
            force: request.force,
        };
        Ok(Next { config, lists, why })
    }

    /// Begins a trial.
    pub fn begin(
        &mut self,
        candidate: Candidate,
        main: PathBuf,
        duration: Duration,
    ) -> Result<(Attempt, Next), Refused> {
        self.require_none_pending()?;
        let until = clock::after(duration);
        let trial = Trial {
            main,
            before: self.texts.clone(),
            after: candidate.texts,
            beneath: self.trial.clone().map(Box::new),
            outcome: TrialOutcome::Pending {
                until: clock::to_wall(until),
            },
            until_boot_ns: until.as_nanos(),
            boot: clock::boot_id(),
        };
        // Save the trial first, so that the next start rolls back if the daemon dies.
        self.kept.replace(Some(&trial))?;
        report(&candidate.warnings);
        let attempt = trial.attempt();
        let Candidate { config, lists, .. } = candidate;
        let why = Why::Trial(trial);
        Ok((attempt, Next { config, lists, why }))
    }

    /// Confirms the configuration on trial.
    pub fn confirm(&mut self) -> Result<Attempt, Refused> {
        let mut trial = self.pending()?;
        trial.outcome = TrialOutcome::Confirmed { at: clock::wall() };
        let disk = config::read(&trial.main).unwrap_or_default();
        if trial.earlier(&disk).is_some() {
            trial.before = disk;
        }
        trial.beneath = None;
        let left = left_of(&trial);
        // Unless the confirmation is saved, the next start would roll back, so it fails.
        self.kept.replace(left.as_ref())?;
        self.trial = left;
        self.reloaded = None;
        Ok(trial.attempt())
    }

    /// Returns the configuration before the trial or, without one, before the last reload. Lists
    /// that could not be read stay as they are.
    pub fn roll_back(&self, lists: ConfiguredLists) -> Result<(Attempt, Next), Refused> {
        let mut trial = self.returning()?;
        let config = before(&trial)?;
        trial.outcome = TrialOutcome::RolledBack { at: clock::wall() };
        let attempt = trial.attempt();
        let why = Why::Rollback(trial);
        Ok((attempt, Next { config, lists, why }))
    }

    /// Records the texts that are now permanent, and what remains of a trial.
    fn holds(&mut self, texts: Vec<File>, left: Option<Trial>) {
        self.texts = texts;
        self.kept.keep(left.as_ref());
        self.trial = left;
    }

    /// Returns why the record is outdated, if it is.
    pub fn behind(&self) -> Option<&str> {
        self.kept.behind()
    }

    /// Remembers the texts before a reload.
    fn note_reload(&mut self, texts: &[File]) {
        let Some(main) = self.main.clone() else {
            return;
        };
        if !have_same_texts(texts, &self.texts) {
            self.reloaded = Some(Trial {
                main,
                before: self.texts.clone(),
                after: texts.to_vec(),
                beneath: None,
                outcome: TrialOutcome::Confirmed { at: clock::wall() },
                until_boot_ns: 0,
                boot: clock::boot_id(),
            });
        }
    }

    /// Returns what a rollback undoes: the pending trial, or the last reload.
    fn returning(&self) -> Result<Trial, Refused> {
        let nothing = || {
            Refused::because("nothing to roll back: no trial in progress, and no reload to undo")
                .hint("for the last result see `rlctl status`")
        };
        let pending = self.pending().ok();
        pending
            .or_else(|| self.reloaded.clone())
            .ok_or_else(nothing)
    }

    fn pending(&self) -> Result<Trial, Refused> {
        let trial = self.trial.clone().filter(Trial::is_pending);
        trial.ok_or_else(|| {
            Refused::because("no trial in progress").hint(
                "start one with `rlctl apply FILE --confirm 60s`; for the last result see `rlctl \
                 status`",
            )
        })
    }

    /// Returns the main file for a reload.
    pub fn reloaded_file(&self) -> Result<PathBuf, Refused> {
        self.require_none_pending()?;
        self.main().map(Path::to_owned).ok_or_else(|| {
            Refused::because("the configuration is from the command line: no file to reload")
        })
    }

    /// Returns the context in which a request to try a configuration is checked.
    pub fn measure(&self, in_force: &Config, is_root: bool) -> Result<Measure, Refused> {
        self.require_none_pending()?;
        let main = self.main().map(Path::to_owned).ok_or_else(|| {
            Refused::because("the daemon was started without a configuration file to return to")
                .hint("start it with --config FILE")
        })?;
        Ok(Measure {
            main,
            in_force: (!is_root).then(|| in_force.clone()),
        })
    }

    /// Returns the configuration that a rollback restores, if it undoes a reload and no trial.
    pub fn before_reload(&self) -> Result<Option<Config>, Refused> {
        let is_pending = self.pending().is_ok();
        let reload = self.reloaded.as_ref().filter(|_| !is_pending);
        reload.map(before).transpose()
    }

    /// Returns the list files of the configuration before the trial.
    pub fn returning_lists(&self, in_force: &Config) -> Result<Vec<ListFile>, Refused> {
        let before = before(&self.returning()?)?;
        let files = configured::files(&before);
        Ok(files
            .filter(|file| in_force.lists.get(&*file.name) != Some(&file.config))
            .collect())
    }

    /// Returns whether the trial has expired and is to be rolled back.
    pub fn is_over(&mut self) -> bool {
        let Trials { kept, trial, .. } = self;
        kept.catch_up(trial.as_ref());
        let trial = trial.as_ref();
        trial.is_some_and(|trial| trial.is_over(clock::now()))
    }
}

/// Returns the trial that still matters after one has ended because the file on disk differs. A
/// trial of the texts before it rejects nothing.
fn left_of(trial: &Trial) -> Option<Trial> {
    let disk = config::read(&trial.main).unwrap_or_default();
    if !trial.is_pending()
        && let Some(earlier) = trial.earlier(&disk)
    {
        return Some(earlier.clone());
    }
    let matters = trial.is_pending() || !have_same_texts(&trial.before, &trial.after);
    (matters && trial.is_of(&disk)).then(|| trial.clone())
}

/// Parses the configuration before a trial.
fn before(trial: &Trial) -> Result<Config, Refused> {
    let parsed = config::parse(&trial.before).map_err(|error| {
        Refused::because(format!("cannot parse the previous configuration: {error}"))
    });
    Ok(parsed?.0)
}
