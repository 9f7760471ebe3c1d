//! The texts in force, and the trial that they may be on: a configuration holds for a time, and then the one before comes back unless
//! somebody confirms it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_core::{
    api::{Attempt, Code, Outcome, Refused, What},
    config::{self, Config, File},
};

use crate::{
    clock,
    control::{
        configuration::{
            candidate::{Candidate, Measure},
            last_good::LastGood,
            trial_record::{self, Trial, say_the_same},
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

/// The texts in force, and the trial that they may be on.
pub struct Trials {
    /// What a start falls back to.
    pub last_good: LastGood,
    kept: StateFile<Trial>,
    /// The file that the daemon reads when it starts; `None` when it was started without one.
    main: Option<PathBuf>,
    texts: Vec<File>,
    pub(crate) trial: Option<Trial>,
    /// The last reload that made something different, and can be taken back as a trial is.
    reloaded: Option<Trial>,
}

/// A configuration that is to be in force.
pub struct Next {
    /// It and its lists.
    pub(crate) config: Config,
    pub(crate) lists: ConfiguredLists,
    pub(crate) why: Why,
}

/// Why it is to be in force, with what holds then.
pub enum Why {
    /// The files say so.
    Reload(Vec<File>),
    /// Somebody tries it.
    Trial(Trial),
    /// It was before the trial that ends with it.
    Rollback(Trial),
}

impl Why {
    /// Why entries go that go with it.
    pub const fn cause(&self) -> Cause<'static> {
        match self {
            Self::Rollback(_) => Cause::Rollback,
            Self::Reload(_) | Self::Trial(_) => Cause::Origin,
        }
    }
}

impl Trials {
    /// Those of the configuration that the daemon starts with.
    pub fn restore(config: &Config, directory: &Path) -> Self {
        let kept = Trial::kept(directory);
        // What is damaged was reported by `resume`, and does not hold.
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

    /// Keeps what is in force as what a start falls back to, unless it is on trial.
    pub fn keep_last_good(&mut self) {
        let is_pending = self.trial.as_ref().is_some_and(Trial::is_pending);
        if !is_pending {
            self.last_good.keep(&self.texts);
        }
    }

    /// Reports the end of a trial whose beginning was reported, where no daemon ran at its deadline.
    pub fn report_end(&self, journal: &mut Journal) {
        let ended = self.kept.read().ok().flatten();
        let ended = ended.filter(|trial| matches!(trial.outcome, Outcome::RolledBack { .. }));
        let events = journal.kept();
        let last = events.iter().rev().find(|event| event.what.is_trial());
        let is_open = last.is_some_and(|event| matches!(event.what, What::TrialBegan { .. }));
        if let Some(trial) = ended.filter(|_| is_open) {
            let file = trial.attempt().file;
            journal.record(clock::wall(), What::TrialRolledBack { file, by: None });
        }
    }

    /// Takes notice of the texts that the daemon started with, unless a trial says which hold.
    pub fn started_with(&mut self, texts: Vec<File>) {
        if self.trial.is_none() && !texts.is_empty() {
            self.texts = texts;
        }
    }

    /// The texts in force; none where the daemon was started without a file.
    pub fn texts(&self) -> &[File] {
        &self.texts
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
                "{} is on trial",
                trial.attempt().file
            ))
            .hint("keep it with `rlctl confirm`, or restore the previous one with `rlctl rollback`")
            .code(Code::Unsettled)),
        }
    }

    /// Refuses texts that would bring back what was before a configuration that was confirmed.
    fn require_saved(&self, texts: &[File]) -> Result<(), Refused> {
        let is_confirmed = |trial: &&Trial| matches!(trial.outcome, Outcome::Confirmed { .. });
        let trial = self.trial.as_ref().filter(is_confirmed);
        match trial.filter(|trial| say_the_same(texts, &trial.before)) {
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

    /// The configuration that comes back where nobody confirms the one on trial.
    pub fn before(&self) -> Option<Config> {
        let trial = self.trial.as_ref().filter(|trial| trial.is_pending())?;
        config::parse(&trial.before).ok().map(|(config, _)| config)
    }

    /// Takes notice of what became of a configuration that was to be in force.
    pub fn settle(&mut self, why: Why, is_in_force: bool) {
        match (why, is_in_force) {
            (Why::Reload(texts), true) => {
                self.note_reload(&texts);
                self.holds(texts, None);
            }
            (Why::Trial(trial), true) => {
                self.texts.clone_from(&trial.after);
                self.trial = Some(trial);
            }
            (Why::Rollback(trial), true) => {
                let left = left_of(&trial);
                let is_taken_back = |it: &mut Trial| say_the_same(&it.after, &trial.after);
                self.reloaded.take_if(is_taken_back);
                self.holds(trial.before, left);
            }
            (Why::Trial(_), false) => self.kept.keep(self.trial.as_ref()),
            (Why::Reload(_) | Why::Rollback(_), false) => {}
        }
    }

    /// The files as they were read.
    pub fn reload(&self, candidate: Candidate, discard: bool) -> Result<Next, Refused> {
        self.require_none_pending()?;
        if !discard {
            self.require_saved(&candidate.texts)?;
        }
        report(&candidate.warnings);
        let (config, lists) = (candidate.config, candidate.lists);
        let why = Why::Reload(candidate.texts);
        Ok(Next { config, lists, why })
    }

    /// A configuration that is on trial for a time.
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
            outcome: Outcome::Pending {
                until: clock::to_wall(until),
            },
            until_boot_ns: until.as_nanos(),
            boot: clock::boot_id(),
        };
        // Written down first: if the daemon ends now, the configuration before comes back too.
        self.kept.replace(Some(&trial))?;
        report(&candidate.warnings);
        let attempt = trial.attempt();
        let Candidate { config, lists, .. } = candidate;
        let why = Why::Trial(trial);
        Ok((attempt, Next { config, lists, why }))
    }

    /// Keeps the configuration that is on trial.
    pub fn confirm(&mut self) -> Result<Attempt, Refused> {
        let mut trial = self.pending()?;
        trial.outcome = Outcome::Confirmed { at: clock::wall() };
        let left = left_of(&trial);
        // What is confirmed and not written down would be gone at the next start: then it is not confirmed.
        self.kept.replace(left.as_ref())?;
        self.trial = left;
        self.reloaded = None;
        Ok(trial.attempt())
    }

    /// The configuration that was before the one on trial, or else before the last reload. Lists that could not be read stay as they are.
    pub fn roll_back(&self, lists: ConfiguredLists) -> Result<(Attempt, Next), Refused> {
        let mut trial = self.returning()?;
        let config = before(&trial)?;
        trial.outcome = Outcome::RolledBack { at: clock::wall() };
        let attempt = trial.attempt();
        let why = Why::Rollback(trial);
        Ok((attempt, Next { config, lists, why }))
    }

    /// Takes notice of texts that nobody may take back by saying nothing, and of what is left of a trial.
    fn holds(&mut self, texts: Vec<File>, left: Option<Trial>) {
        self.texts = texts;
        self.kept.keep(left.as_ref());
        self.trial = left;
    }

    /// Why the state directory says something else.
    pub fn behind(&self) -> Option<&str> {
        self.kept.behind()
    }

    /// Remembers what was in force before a reload.
    fn note_reload(&mut self, texts: &[File]) {
        let Some(main) = self.main.clone() else {
            return;
        };
        if !say_the_same(texts, &self.texts) {
            self.reloaded = Some(Trial {
                main,
                before: self.texts.clone(),
                after: texts.to_vec(),
                outcome: Outcome::Confirmed { at: clock::wall() },
                until_boot_ns: 0,
                boot: clock::boot_id(),
            });
        }
    }

    /// What a rollback takes back: the trial that is pending, or the last reload.
    fn returning(&self) -> Result<Trial, Refused> {
        self.pending()
            .or_else(|refused| self.reloaded.clone().ok_or(refused))
    }

    fn pending(&self) -> Result<Trial, Refused> {
        let trial = self.trial.clone().filter(Trial::is_pending);
        trial.ok_or_else(|| {
            Refused::because("no trial in progress")
                .hint("start one with `rlctl apply FILE --confirm 60s`; for the last result see `rlctl status`")
        })
    }

    /// The file that a reload begins with.
    pub fn reloaded_file(&self) -> Result<PathBuf, Refused> {
        self.require_none_pending()?;
        self.main().map(Path::to_owned).ok_or_else(|| {
            Refused::because("the configuration is from the command line: no file to reload")
        })
    }

    /// What a request to try a configuration is measured by.
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

    /// The files of the lists that come back with the configuration before the one on trial.
    pub fn returning_lists(&self, in_force: &Config) -> Result<Vec<ListFile>, Refused> {
        let before = before(&self.returning()?)?;
        let files = configured::files(&before);
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

/// What is left of a trial that has ended: it matters as long as the file on the disk says something else.
fn left_of(trial: &Trial) -> Option<Trial> {
    let disk = config::read(&trial.main).unwrap_or_default();
    trial.is_of(&disk).then(|| trial.clone())
}

/// The configuration before a trial.
fn before(trial: &Trial) -> Result<Config, Refused> {
    let parsed = config::parse(&trial.before).map_err(|error| {
        Refused::because(format!("cannot parse the previous configuration: {error}"))
    });
    Ok(parsed?.0)
}
