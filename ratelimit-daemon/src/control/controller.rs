//! The one owner of what is intended and of the datapath.
//!
//! It does one thing at a time, on the thread of `handle.rs`. Its commands are in `commands/`, what it tells in `queries/`; how a
//! change gets into the database and the datapath, or into neither, is in `state.rs`.

use jiff::Timestamp;
use ratelimit_core::{
    api::{ClockStatus, Refused},
    config::Config,
    lists,
};
use tokio::sync::mpsc;
use tracing::warn;

use super::{
    cluster::Membership,
    feeds::{
        adopted::Adopted,
        attacks::Attacks,
        crowdsec::CrowdsecFeed,
        detected::Detections,
        ended::{Ended, EndedEntries},
        lists::ListFiles,
        pass_all::PassAll,
        trials::Trials,
    },
    history::History,
    last_good::LastGood,
    list_files::{Deadline, ListFile},
    lists::{not_named, told},
    metrics_port::MetricsPort,
    progress::Progress,
    reconcile::Comparisons,
    reload,
    scanner::{self, Scanner},
    stand_in::StandIn,
    state::State,
    store::Store,
    timekeeper::Reading,
    troubles::{Loudness, Troubles},
};
use crate::{datapath::Datapath, links::Links, protected::Protected};

/// What does not work where the daemon started with another configuration than that of the files.
pub const CONFIGURATION: &str = "configuration";

/// The state, and everything that changes it by itself.
pub struct Controller {
    /// What is intended, and where it holds.
    pub state: State,
    pub(super) started: Timestamp,
    pub(super) reloads: Reloads,
    pub(super) detections: Detections,
    pub(super) attacks: Attacks,
    /// How far an import is.
    pub(super) progress: Progress,
    pub(super) history: History,
    pub(super) list_files: ListFiles,
    pub(super) ended_entries: EndedEntries,
    pub(super) comparisons: Comparisons,
    pub(super) crowdsec: CrowdsecFeed,
    pub(super) cluster: Membership,
    pub(super) trials: Trials,
    pub(super) pass_all: PassAll,
    pub(super) links: Links,
    /// When all interfaces were last looked at.
    pub(super) tended: std::time::Instant,
    pub(super) troubles: Troubles,
    pub(super) last_good: LastGood,
    pub(super) metrics_port: MetricsPort,
    /// What stands in for a state directory that cannot be written.
    pub(super) stand_in: Option<StandIn>,
    /// The thread that scans the tables of sources.
    pub(super) scans: Option<mpsc::Sender<scanner::Job>>,
}

/// What became of the configuration so far.
#[derive(Clone, Debug)]
pub struct Reloads {
    /// When it was last applied.
    pub applied: Timestamp,
    /// Why it was last refused; `None` when it was not.
    pub error: Option<String>,
}

impl Controller {
    /// Takes the datapath over, and brings it to what `config` and `store` say. Bans stop at what is `protected`.
    ///
    /// # Errors
    ///
    /// When the database or the datapath cannot be read, or the datapath cannot hold what is intended.
    pub fn new(
        config: Config,
        store: Store,
        datapath: Box<dyn Datapath>,
        protected: Protected,
    ) -> anyhow::Result<Self> {
        let history = History::restore(&store)?;
        let directory = config.paths.state.clone();
        let trials = Trials::restore(&config, &directory);
        let progress = Progress::default();
        let pass_all = PassAll::restore(&directory);
        let until = pass_all.until();
        let state = State::new(config, store, datapath, protected, &progress, until)?;
        let mut controller = Self {
            trials,
            pass_all,
            last_good: LastGood::new(&directory),
            started: Timestamp::now(),
            reloads: Reloads {
                applied: Timestamp::now(),
                error: None,
            },
            detections: Detections::default(),
            attacks: Attacks::default(),
            progress,
            history,
            list_files: ListFiles::default(),
            ended_entries: EndedEntries::default(),
            comparisons: Comparisons::default(),
            crowdsec: CrowdsecFeed::new(state.intent.config.crowdsec.clone()),
            cluster: Membership::new(&state.intent.config),
            links: Links::default(),
            tended: std::time::Instant::now(),
            troubles: Troubles::default(),
            metrics_port: MetricsPort::default(),
            stand_in: None,
            scans: None,
            state,
        };
        // What went wrong is logged; the lists stay as they were.
        controller.read_lists();
        controller.take_missed();
        Ok(controller)
    }

    /// Takes notice of the texts that it started with, and why the files are not taken where they are wrong.
    pub fn note_start(
        &mut self,
        texts: Vec<ratelimit_core::config::File>,
        refused: Option<String>,
    ) {
        self.trials.started_with(texts);
        self.keep_last_good();
        if let Some(refused) = refused {
            let error = format!(
                "the files cannot be put in force, and what was in force last holds until they are mended and `rlctl reload` takes them: {refused}"
            );
            self.reloads.error = Some(refused);
            self.note_trouble(CONFIGURATION, Loudness::Error, Some(error));
        }
    }

    /// Takes over the bans that policies made, if there are any.
    ///
    /// # Errors
    ///
    /// Why they stay with the kernel alone, where they hold all the same.
    pub(super) fn take_detected(&mut self) -> Result<(), Refused> {
        self.state.take(&mut self.detections)?;
        let taken = self.detections.taken();
        if taken.is_empty() {
            return Ok(());
        }
        let datapath = self.state.enforcer.datapath_mut();
        datapath.forget_detected(&taken).map_err(|error| {
            self.detections.look_again();
            Refused::from(error)
        })
    }

    /// The same when the kernel has counted bans of which no event came.
    pub fn take_missed(&mut self) {
        if let Err(refused) = self.take_detected() {
            warn!(
                error = refused.error,
                "bans by policies stay with the kernel alone"
            );
        }
    }

    /// Reads the files of all lists at the start, and takes away the lists whose files the configuration does not name any more.
    /// What cannot be read stays as it was. Answers what is different or went wrong, a line each.
    pub(super) fn read_lists(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for name in not_named(&self.state.intent, &self.state.intent.config) {
            self.list_files.gone(name);
            let _ = self.state.take(&mut self.list_files);
            lines.extend(self.list_files.line());
        }
        let lists = self.state.intent.config.lists.clone();
        self.list_files.retain(&lists);
        let deadline = Deadline::default();
        for (name, config) in &lists {
            let file = ListFile::new(name, config);
            let reading = file.read_by(&deadline);
            lines.extend(self.take_list(&file, reading));
        }
        lines
    }

    /// Puts what was read from a file in the place of the list, and says what is different or went wrong.
    pub(super) fn take_list(
        &mut self,
        file: &ListFile,
        reading: Result<lists::Reading, Refused>,
    ) -> Option<String> {
        if self.state.intent.config.lists.get(&*file.name) != Some(&file.config) {
            // A reload came in between.
            return None;
        }
        self.list_files.read(file.clone(), reading);
        let _ = self.state.take(&mut self.list_files);
        self.list_files.line()
    }

    /// Whether all who may ban and allow have said again whom: files of lists were read, and `CrowdSec` answered.
    fn is_told_again(&self) -> bool {
        let config = &self.state.intent.config;
        let is_read = |name: &String| self.list_files.state(name).read.is_some();
        config.lists.keys().all(is_read)
            && (config.crowdsec.is_none() || self.crowdsec.has_answered())
    }

    /// Puts the configuration in force that is next, and answers what is different, a line each.
    ///
    /// # Errors
    ///
    /// Why the one before stays in force.
    pub(super) fn replace(&mut self) -> Result<Vec<String>, Refused> {
        // What was banned in a dry run is not kept when that ends.
        self.take_missed();
        let (before, clock) = (self.state.intent.config.clone(), self.state.clock());
        let (scopes, renewals) = (self.state.scopes(None), self.state.renewals);
        let replaced = self.state.take(&mut self.trials);
        self.follow_config();
        if self.state.renewals != renewals {
            self.follow_tables();
        }
        replaced?;
        let mut changes = reload::changes(&before, &self.state.intent.config);
        changes.extend(scopes.runtime_changes(&self.state.scopes(None)));
        changes.extend(self.reattach(&before.interfaces));
        if before.metrics != self.state.intent.config.metrics {
            self.open_metrics();
            changes.extend(self.troubles().of("metrics").map(str::to_owned));
        }
        let is_other = |after: &ClockStatus| (after.clock, after.wish) != (clock.clock, clock.wish);
        let after = Some(self.state.clock()).filter(is_other);
        changes.extend(after.map(|after| after.to_string()));
        changes.extend(self.note_lists());
        Ok(changes)
    }

    /// Has those follow the configuration who talk to others.
    fn follow_config(&mut self) {
        let config = &self.state.intent.config;
        self.crowdsec.wish(config.crowdsec.as_ref());
        self.cluster.wish(config.cluster.as_ref());
    }

    /// Has those who scan, and the programs, look at other tables than before.
    fn follow_tables(&mut self) {
        let tables = self.state.enforcer.datapath().sources();
        if let Some(scans) = &self.scans {
            // Without that thread nobody looks at the tables.
            let _ = scans.blocking_send(Box::new(move |scanner| *scanner = Scanner::new(tables)));
        }
        self.attach_wanted(true);
    }

    /// Takes notice of lists that were put in force, and answers what is different, a line each.
    fn note_lists(&mut self) -> Vec<String> {
        let changes = self.trials.changes();
        self.list_files.retain(&self.state.intent.config.lists);
        let gone = changes.gone.into_iter();
        let mut lines: Vec<String> = gone
            .map(|(name, removed)| format!("list {name}: removed, with {removed} entries"))
            .collect();
        for (name, bad, difference) in changes.read {
            self.list_files.succeeded(&name);
            lines.extend(told(&name, bad, &difference));
        }
        lines
    }

    /// Keeps what is in force as what a start falls back to, unless it is on trial.
    pub(super) fn keep_last_good(&mut self) {
        if let Some(texts) = self.trials.settled() {
            self.last_good.keep(texts);
        }
    }

    /// The same but for the end of the comparison: what is left of it comes by [`compare_on`](Self::compare_on).
    pub(crate) fn begin_tick(&mut self) {
        if let Err(error) = self.state.keep_time(Reading::now()) {
            warn!(
                error = format!("{error:#}"),
                "the ends of bans, allows and limits could not be brought to the clock"
            );
        }
        // Feeds log what went wrong.
        let _ = self.state.take(&mut self.pass_all);
        self.tick_links();
        self.tick_metrics();
        self.tick_stand_in();
        self.last_good.catch_up();
        self.take_missed();
        let _ = self.state.take(&mut Ended);
        if Adopted::is_there(&self.state) && self.is_told_again() {
            let _ = self.state.take(&mut Adopted::default());
        }
        self.state.write_unwritten();
        self.state.keep_journal();
        self.begin_comparison();
        self.state.watch_filling();
        self.state.store.flush();
    }
}

#[cfg(test)]
mod tests;
