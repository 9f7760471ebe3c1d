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
        configuration::warnings,
        feeds::{Feeds, list_files::read_all, propose},
        interfaces::{self, Interfaces},
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
    /// What proposes changes of it.
    pub(crate) feeds: Feeds,
    /// Where programs run, and where they are to.
    pub(crate) interfaces: Interfaces,
    pub(super) metrics_port: MetricsPort,
    /// What is known of sources by scans, which run on a thread of their own.
    pub(crate) scans: Scans,
    /// How far the comparison of the kernel with the state is.
    pub(super) comparisons: Comparisons,
    /// What stands in for a state directory that cannot be written.
    pub(super) fallback: Option<FallbackDirectory>,
    /// What is reported of the daemon that no other field knows.
    pub(crate) about: About,
}

/// How the tables of sources are scanned.
pub(crate) struct Scans {
    /// What sources sent, by the hour.
    pub history: History,
    /// The thread that scans them.
    pub jobs: Option<mpsc::Sender<scanner::Job>>,
    /// How often the tables were made anew that it scans, and that programs run on.
    followed: u64,
}

/// What is reported of the daemon.
pub(crate) struct About {
    pub started: Timestamp,
    pub reloads: Reloads,
    /// How the history of packets is kept, beside the controller.
    pub traffic: HistoryStatus,
    /// How far an import is.
    pub progress: Progress,
    pub workload: Workload,
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
        let feeds = Feeds::restore(&config, &config.paths.state);
        let progress = Progress::default();
        let until = feeds.pass_all.until();
        let mut state = State::new(config, store, datapath, protected, &progress, until)?;
        feeds.trials.report_end(&mut state.reports.journal);
        interfaces::follow_renames(&mut state);
        let is_running = state.enforcer.attachments().runs();
        let interfaces = state.intent.config.interfaces.clone();
        if let Err(error) = state.lengthen(&interfaces) {
            let error = format!("{error:#}");
            warn!(
                error,
                "a policy with additional limits is partly enforced until the program is attached"
            );
        }
        let mut controller = Self {
            feeds,
            interfaces: Interfaces::default(),
            metrics_port: MetricsPort::default(),
            scans: Scans {
                history,
                jobs: None,
                followed: state.noted.renewals,
            },
            comparisons: Comparisons::default(),
            fallback: None,
            about: About {
                started: clock::wall(),
                reloads: Reloads {
                    applied: clock::wall(),
                    error: None,
                },
                traffic: HistoryStatus::default(),
                progress,
                workload: Workload::default(),
            },
            state,
        };
        if is_running {
            controller.take_lists();
            // Where a step was refused and not taken back, it is an error here.
            controller.state.fill()?;
            controller.shorten();
        }
        let _ = propose(&mut controller.feeds.detections, &mut controller.state);
        Ok(controller)
    }

    /// Puts the lists of files in force, unless that was done. What went wrong is logged; those
    /// lists stay as they were.
    pub fn take_lists(&mut self) {
        if !std::mem::replace(&mut self.feeds.list_files.are_read, true) {
            read_all(&mut self.state, &mut self.feeds.list_files);
        }
    }

    /// Takes notice of the texts that it started with, and why the files are not taken where they are wrong.
    pub fn note_start(
        &mut self,
        texts: Vec<ratelimit_core::config::File>,
        refused: Option<String>,
    ) {
        self.feeds.trials.started_with(texts);
        self.feeds.trials.keep_last_good();
        if let Some(refused) = refused {
            let error = format!(
                "invalid configuration; running the last valid one until you fix it and run `rlctl reload`: {refused}"
            );
            self.about.reloads.error = Some(Refused::because(refused));
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
        let journal = &mut self.state.reports.journal;
        journal.record(clock::wall(), What::UsageReset { why });
    }

    /// Why what holds is not written down, so that a restart may undo it.
    pub fn unkept(&self) -> Vec<String> {
        let files = self.files_behind().into_iter().map(str::to_owned);
        files.chain(self.state.kept.unwritten.behind()).collect()
    }

    /// How many changes, and how many files, are not written down though they hold.
    pub(super) fn count_unkept(&self) -> Unkept {
        Unkept {
            changes: self.state.kept.unwritten.count(),
            files: self.files_behind().len(),
        }
    }

    fn files_behind(&self) -> Vec<&str> {
        let behind = [
            self.feeds.pass_all.behind(),
            self.feeds.trials.behind(),
            self.feeds.trials.last_good.behind(),
            self.fallback
                .as_ref()
                .and_then(|_| self.state.reports.troubles.of(STATE)),
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

    /// Gives records and logs the size that the policies need, after those of before are gone, and
    /// removes features that nothing uses. The programs are replaced for it once.
    fn shorten(&mut self) {
        if let Err(error) = self.state.shorten_records() {
            warn!(
                error = format!("{error:#}"),
                "records and logs stay longer than the policies need"
            );
        }
        self.scans.followed = self.state.noted.renewals;
        self.state.narrow();
    }

    /// Has those who scan, and the programs, look at other tables than before, where there are others.
    pub(super) fn follow_tables(&mut self) {
        if self.scans.followed == self.state.noted.renewals {
            return;
        }
        self.scans.followed = self.state.noted.renewals;
        let tables = self.state.enforcer.datapath().sources();
        if let Some(jobs) = &self.scans.jobs {
            // Without that thread nobody looks at the tables.
            let _ = jobs.blocking_send(Box::new(move |scanner| *scanner = Scanner::new(tables)));
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
                "usage of some sources was lost because the record size changed"
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
        self.feeds.crowdsec.wish(config.crowdsec.as_ref());
        self.feeds.cluster.wish(config.cluster.as_ref());
        let exposed = warnings::secrets(config);
        let exposed = (!exposed.is_empty()).then(|| exposed.join("; "));
        self.state.report(SECRETS, exposed);
    }
}

#[cfg(test)]
mod tests;
