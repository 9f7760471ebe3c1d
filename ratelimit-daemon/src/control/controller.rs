//! The one owner of what is intended and of the datapath.
//!
//! It does one thing at a time, on the thread of `handle.rs`. Its commands are in `commands/`, what it tells in `queries/`; how a
//! change gets into the database and the datapath, or into neither, is in `state.rs`.

pub mod command;
pub mod handle;
pub mod metrics_port;
pub mod tick;

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_core::{
    api::{HistoryStatus, Refused, Unenforced, What},
    config::Config,
    policies::Policies,
};
use tokio::sync::mpsc;
use tracing::warn;

use self::metrics_port::{Listeners, MetricsPort};
use crate::{
    clock,
    control::{
        configuration::{last_good::LastGood, warnings},
        feeds::{
            attacks::Attacks, challenge::Challenge, cluster::Membership, crowdsec::CrowdsecFeed,
            detected::Detections, expiry::Ended, list_files::read_all, pass_all::PassAll,
            trials::Trials, verified::VerifiedSources,
        },
        interfaces::Interfaces,
        lists::files::ListFiles,
        persistence::store::Store,
        reports::{
            progress::Progress,
            troubles::{CONFIGURATION, SECRETS, STATE},
            workload::Workload,
        },
        sources::{
            history::History,
            scanner::{self, Scanner},
        },
        state::{State, fallback_directory::FallbackDirectory, reconcile::Comparisons},
    },
    datapath::Datapath,
    protected::Protected,
};

/// The state, and everything that changes it by itself.
pub struct Controller {
    /// What is intended, and where it holds.
    pub state: State,
    pub(crate) started: Timestamp,
    pub(super) reloads: Reloads,
    pub(super) detections: Detections,
    pub(crate) attacks: Attacks,
    /// How far an import is.
    pub(super) progress: Progress,
    pub(super) workload: Workload,
    pub(crate) history: History,
    /// How the history of packets is kept, beside the controller.
    pub(super) traffic: HistoryStatus,
    pub(crate) list_files: ListFiles,
    /// Whether their files were read since the start.
    are_lists_read: bool,
    pub(super) ended: Ended,
    pub(super) comparisons: Comparisons,
    pub(crate) crowdsec: CrowdsecFeed,
    pub(crate) cluster: Membership,
    pub(crate) trials: Trials,
    pub(crate) pass_all: PassAll,
    pub(super) challenge: Challenge,
    pub(crate) verified: VerifiedSources,
    pub(crate) interfaces: Interfaces,
    pub(super) last_good: LastGood,
    pub(super) metrics_port: MetricsPort,
    /// What stands in for a state directory that cannot be written.
    pub(super) fallback: Option<FallbackDirectory>,
    /// How often tables were made anew that programs run on.
    followed: u64,
    /// The thread that scans the tables of sources.
    pub(super) scans: Option<mpsc::Sender<scanner::Job>>,
}

/// What became of the configuration so far.
#[derive(Clone, Debug)]
pub struct Reloads {
    /// When it was last applied.
    pub applied: Timestamp,
    /// Why it was last refused; `None` when it was not.
    pub error: Option<Refused>,
}

/// What holds and is not written down, so that a restart may undo it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unkept {
    /// Changes that are not in the database.
    pub changes: usize,
    /// Files of the state directory that say something else.
    pub files: usize,
}

impl Controller {
    /// Takes the datapath over, and brings it to what `config` and `store` say. Bans stop at what is `protected`.
    ///
    /// Where programs run already, that comes in one step with what the files of lists say. Where
    /// none does, these files are read after [`attach`](Self::attach): a host without protection
    /// waits for no file.
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
        let mut state = State::new(config, store, datapath, protected, &progress, until)?;
        trials.report_end(&mut state.journal);
        let is_running = state.enforcer.attachments().runs();
        let interfaces = state.intent.config.interfaces.clone();
        if let Err(error) = state.lengthen(&interfaces) {
            let error = format!("{error:#}");
            warn!(
                error,
                "a policy with more limits than before is enforced in part until it is attached"
            );
        }
        let mut controller = Self {
            trials,
            traffic: HistoryStatus::default(),
            pass_all,
            challenge: Challenge::default(),
            verified: VerifiedSources::default(),
            last_good: LastGood::new(&directory),
            started: clock::wall(),
            reloads: Reloads {
                applied: clock::wall(),
                error: None,
            },
            detections: Detections::default(),
            attacks: Attacks::default(),
            progress,
            workload: Workload::default(),
            history,
            list_files: ListFiles::default(),
            are_lists_read: false,
            ended: Ended::default(),
            comparisons: Comparisons::default(),
            crowdsec: CrowdsecFeed::new(state.intent.config.crowdsec.clone()),
            cluster: Membership::new(&state.intent.config),
            interfaces: Interfaces::default(),
            metrics_port: MetricsPort::default(),
            fallback: None,
            scans: None,
            followed: state.renewals,
            state,
        };
        if is_running {
            controller.take_lists();
            // Where a step was refused and not taken back, it is an error here.
            controller.state.fill()?;
        }
        let _ = controller.detections.adopt(&mut controller.state);
        Ok(controller)
    }

    /// Puts the lists of files in force, unless that was done. What went wrong is logged; those
    /// lists stay as they were.
    pub fn take_lists(&mut self) {
        if !std::mem::replace(&mut self.are_lists_read, true) {
            read_all(&mut self.state, &mut self.list_files);
        }
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
            self.reloads.error = Some(Refused::because(refused));
            self.state.report(CONFIGURATION, Some(error));
        }
    }

    /// Works on a copy of the state from here on, until its directory can be written.
    pub fn fallback(&mut self, fallback: Option<FallbackDirectory>) {
        FallbackDirectory::note(fallback.as_ref(), &mut self.state);
        self.fallback = fallback;
    }

    /// Reports why what sources have used starts anew.
    pub fn note_reset(&mut self, reset: Option<&str>) {
        let Some(why) = reset else {
            return;
        };
        warn!("{why}");
        let why = why.to_owned();
        self.state
            .journal
            .record(clock::wall(), What::UsageReset { why });
    }

    /// Why what holds is not written down, so that a restart may undo it.
    pub fn unkept(&self) -> Vec<String> {
        let files = self.files_behind().into_iter().map(str::to_owned);
        files.chain(self.state.unwritten.behind()).collect()
    }

    /// How many changes, and how many files, are not written down though they hold.
    pub(super) fn count_unkept(&self) -> Unkept {
        Unkept {
            changes: self.state.unwritten.count(),
            files: self.files_behind().len(),
        }
    }

    fn files_behind(&self) -> Vec<&str> {
        let behind = [
            self.pass_all.behind(),
            self.trials.behind(),
            self.last_good.behind(),
            self.fallback
                .as_ref()
                .and_then(|_| self.state.troubles.of(STATE)),
        ];
        behind.into_iter().flatten().collect()
    }

    /// The policies as they are compiled.
    pub(crate) fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.state.compiled.policies)
    }

    /// What is not enforced, as it was seen last.
    pub fn unenforced(&self) -> Vec<Unenforced> {
        self.interfaces.links.unenforced()
    }

    /// Puts the programs on their interfaces, as far as they are there: the tables are filled. Then
    /// come the lists of files.
    pub fn attach(&mut self) {
        self.interfaces.attach(&mut self.state);
        self.settle();
        self.take_lists();
    }

    /// Has those who scan, and the programs, look at other tables than before, where there are others.
    pub(super) fn follow_tables(&mut self) {
        if self.followed == self.state.renewals {
            return;
        }
        self.followed = self.state.renewals;
        let tables = self.state.enforcer.datapath().sources();
        if let Some(scans) = &self.scans {
            // Without that thread nobody looks at the tables.
            let _ = scans.blocking_send(Box::new(move |scanner| *scanner = Scanner::new(tables)));
        }
        self.interfaces.attach_wanted(&mut self.state, true);
        self.settle();
    }

    /// Takes over usage that was charged to records of another size until the programs were replaced,
    /// and removes their unused features.
    fn settle(&mut self) {
        if let Err(error) = self.state.enforcer.datapath_mut().settle() {
            warn!(
                error = format!("{error:#}"),
                "what sources have used by records of another size is not all carried over"
            );
        }
        self.state.narrow();
    }

    /// Opens the port of the configuration, and answers who gets the listeners.
    pub fn serve_metrics(&mut self) -> Listeners {
        let listeners = self.metrics_port.listeners();
        self.follow_metrics();
        listeners
    }

    /// Serves metrics where the configuration says.
    pub(super) fn follow_metrics(&mut self) {
        self.metrics_port.follow(&mut self.state);
    }

    /// Has those follow the configuration who talk to others.
    pub(super) fn follow_config(&mut self) {
        let config = &self.state.intent.config;
        self.crowdsec.wish(config.crowdsec.as_ref());
        self.cluster.wish(config.cluster.as_ref());
        let exposed = warnings::secrets(config);
        let exposed = (!exposed.is_empty()).then(|| exposed.join("; "));
        self.state.report(SECRETS, exposed);
    }

    /// Keeps what is in force as what a start falls back to, unless it is on trial.
    pub(super) fn keep_last_good(&mut self) {
        if let Some(texts) = self.trials.settled() {
            self.last_good.keep(texts);
        }
    }
}

#[cfg(test)]
mod tests;
