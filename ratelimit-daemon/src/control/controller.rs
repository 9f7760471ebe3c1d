//! The owner of the intent and of the datapath.
//!
//! It does one thing at a time, on the thread of `handle.rs`. Its commands are in `commands/` and
//! its queries in `queries/`. `state.rs` applies a change to the database and the datapath, or to
//! neither.

pub mod command;
pub mod handle;
pub mod port;
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

use self::port::{Listeners, Port};
use crate::{
    clock,
    control::{
        configuration::{last_good, warnings},
        feeds::{Feeds, list_files::read_all, propose},
        interfaces::{self, Interfaces},
        persistence::store::Store,
        reports::{
            troubles::{CONFIGURATION, KEY_USAGE, SECRETS, STATE},
            workload::Workload,
        },
        sources::scanner::{self, Scanner},
        state::{State, fallback_directory::FallbackDirectory, lockout, reconcile::Comparisons},
    },
    datapath::Datapath,
    keys::Keys,
    protected::Protected,
};

/// The state, and everything that changes it on its own.
pub struct Controller {
    /// The intent, and the state of the kernel.
    pub state: State,
    pub(crate) feeds: Feeds,
    pub(crate) interfaces: Interfaces,
    pub(super) metrics_port: Port,
    pub(super) keys_port: Port,
    /// The key spaces, which other threads answer about.
    pub(crate) keys: Keys,
    /// Scans of sources, which run on a separate thread.
    pub(crate) scans: Scans,
    /// The progress of comparing the kernel with the state.
    pub(super) comparisons: Comparisons,
    /// Replaces a state directory that cannot be written.
    pub(super) fallback: Option<FallbackDirectory>,
    /// Reported facts about the daemon that no other field has.
    pub(crate) about: About,
}

/// Scans of the tables of sources.
pub(crate) struct Scans {
    /// The scanning thread.
    pub jobs: Option<mpsc::Sender<scanner::Job>>,
    /// The value of `renewals` for which the scanner and the programs have the tables.
    followed: u64,
}

/// Facts about the daemon for reports.
pub(crate) struct About {
    pub started: Timestamp,
    pub reloads: Reloads,
    /// The state of the traffic history, which another thread writes.
    pub traffic: HistoryStatus,
    pub workload: Workload,
}

/// The results of reloads.
#[derive(Clone, Debug)]
pub struct Reloads {
    /// The time at which a configuration was last applied.
    pub applied: Timestamp,
    /// The error of the last reload, if it was refused.
    pub error: Option<Refused>,
}

/// Changes in force that a restart may undo, because they are not saved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unkept {
    /// Changes that are not in the database.
    pub changes: usize,
    /// Outdated files in the state directory.
    pub files: usize,
}

impl Controller {
    /// Adopts the datapath, and brings it to the state of `config` and `store`. Bans exempt
    /// `protected`.
    ///
    /// If programs are already running, this happens in one step together with the files of lists.
    /// Otherwise these files are read after [`attach`](Self::attach), so that a host without
    /// protection does not wait for a file.
    pub fn new(
        config: Config,
        store: Store,
        datapath: Datapath,
        protected: Protected,
    ) -> anyhow::Result<Self> {
        let (keys, unread) = Keys::open(&config);
        let feeds = Feeds::restore(&config, &config.paths.state, keys.clone());
        let workload = Workload::default();
        let until = feeds.pass_all.until();
        let mut state = State::new(
            config,
            store,
            datapath,
            protected,
            &workload.progress,
            until,
        )?;
        state.report(KEY_USAGE, unread);
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
            metrics_port: Port::METRICS,
            keys_port: Port::KEYS,
            keys,
            scans: Scans {
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
                workload,
            },
            state,
        };
        if is_running {
            controller.take_lists();
            // A step that was refused and not undone is an error here.
            controller.state.fill()?;
            controller.shorten();
        }
        let _ = propose(&mut controller.feeds.policy_bans, &mut controller.state);
        Ok(controller)
    }

    /// Puts the lists of files in force, unless that was done. If a file fails, its list stays and
    /// the error is logged.
    pub fn take_lists(&mut self) {
        if !std::mem::replace(&mut self.feeds.list_files.are_read, true) {
            read_all(&mut self.state, &mut self.feeds.list_files);
        }
    }

    /// Records the texts of the configuration at start, and why the files were refused, if they
    /// were.
    pub fn note_start(
        &mut self,
        texts: Vec<ratelimit_core::config::File>,
        refused: Option<String>,
    ) {
        self.compare_with_last_good();
        self.feeds.trials.started_with(texts);
        self.feeds.trials.keep_last_good();
        if let Some(refused) = refused {
            let error = format!(
                "invalid configuration; running the last valid one until you fix it and run `rlctl \
                 reload`: {refused}"
            );
            self.about.reloads.error = Some(Refused::because(refused));
            self.state.report(CONFIGURATION, Some(error));
        }
    }

    /// Reports a start with other tables for sources, and folds bans by other settings, as a reload
    /// does.
    fn compare_with_last_good(&mut self) {
        let config = &self.state.intent.config;
        let Some(before) = last_good::config_before(config) else {
            return;
        };
        let is_other = !config.source.has_tables_of(&before.source);
        self.state.noted.unjudged.all |= config.fold != before.fold;
        if is_other && self.state.enforcer.attachments().runs() {
            self.note_reset(Some(
                "[source] was changed; sources start with unused limits",
            ));
        }
    }

    /// Works on a copy of the state until its directory can be written.
    pub fn fallback(&mut self, fallback: Option<FallbackDirectory>) {
        FallbackDirectory::note(fallback.as_ref(), &mut self.state);
        self.fallback = fallback;
    }

    /// Reports why usage was reset.
    pub fn note_reset(&mut self, reset: Option<&str>) {
        if let Some(why) = reset.map(str::to_owned) {
            self.state.reports.record(What::UsageReset { why });
        }
    }

    /// Returns why changes are not saved, so that a restart may undo them.
    pub fn unkept(&self) -> Vec<String> {
        let files = self.files_behind().into_iter().map(str::to_owned);
        files.chain(self.state.kept.unwritten.behind()).collect()
    }

    /// Counts the changes and files that are not saved.
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

    pub(crate) fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.state.compiled.policies)
    }

    /// Returns what was not enforced when the interfaces were last checked.
    pub fn unenforced(&self) -> Vec<Unenforced> {
        self.interfaces.links.unenforced()
    }

    /// Attaches the programs to the existing interfaces, after the tables were filled. The files of
    /// lists come next.
    pub fn attach(&mut self) {
        self.interfaces.attach(&mut self.state);
        self.settle();
        self.take_lists();
    }

    /// Shrinks records and logs to the size that the policies need once the previous policies are
    /// gone, and removes unused features. Both take effect when the programs are attached.
    fn shorten(&mut self) {
        if let Err(error) = self.state.shorten_records() {
            warn!(
                error = format!("{error:#}"),
                "records and logs stay longer than the policies need"
            );
        }
        self.scans.followed = self.state.noted.renewals;
        self.state.enforcer.narrow_next();
    }

    /// Points the scanner and the programs to new tables, if there are any.
    pub(super) fn follow_tables(&mut self) {
        if self.scans.followed == self.state.noted.renewals {
            return;
        }
        self.scans.followed = self.state.noted.renewals;
        let tables = Arc::clone(&self.state.enforcer.datapath().sources);
        if let Some(jobs) = &self.scans.jobs {
            // Without the thread, nothing scans the tables.
            let _ = jobs.blocking_send(Box::new(move |scanner| *scanner = Scanner::new(tables)));
        }
        self.state.enforcer.narrow_next();
        self.interfaces.attach_wanted(&mut self.state, true);
        self.settle();
    }

    /// Copies usage that was charged to records of another size until the programs were replaced,
    /// and removes unused features.
    fn settle(&mut self) {
        if let Err(error) = self.state.enforcer.datapath_mut().settle() {
            warn!(
                error = format!("{error:#}"),
                "usage of some sources was lost because the record size changed"
            );
        }
        self.state.narrow();
    }

    /// Opens the configured port, and returns the channel of listeners.
    pub fn serve_metrics(&mut self) -> Listeners {
        let listeners = self.metrics_port.listeners();
        self.follow_metrics();
        listeners
    }

    /// Serves metrics on the configured address.
    pub(super) fn follow_metrics(&mut self) {
        let wanted = self.state.intent.config.metrics;
        self.metrics_port.follow(wanted, &mut self.state);
    }

    /// Opens the configured port for keys, and returns the channel of listeners.
    pub fn serve_keys(&mut self) -> Listeners {
        let listeners = self.keys_port.listeners();
        self.follow_keys();
        listeners
    }

    fn follow_keys(&mut self) {
        let config = &self.state.intent.config;
        self.keys.follow(config);
        let wanted = config.keys.listen;
        self.keys_port.follow(wanted, &mut self.state);
    }

    /// Passes the configuration on to connections with other servers.
    pub(super) fn follow_config(&mut self) {
        self.follow_keys();
        let config = &self.state.intent.config;
        self.feeds.crowdsec.wish(config.crowdsec.as_ref());
        self.feeds.cluster.wish(config.cluster.as_ref());
        if let Some(warning) = lockout::warning(&self.state) {
            warn!("{warning}");
        }
        let exposed = warnings::secrets(config);
        let exposed = (!exposed.is_empty()).then(|| exposed.join("; "));
        self.state.report(SECRETS, exposed);
    }
}

#[cfg(test)]
mod tests;
