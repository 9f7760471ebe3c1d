//! The one owner of what is intended and of the datapath.
//!
//! It does one thing at a time, on the thread of `handle.rs`. Its commands are in `commands.rs`, what it tells in `views.rs`; how a
//! change gets into the database and the datapath, or into neither, is in `state.rs`.

use jiff::Timestamp;
use ratelimit_core::{
    api::Refused,
    config::{Config, Crowdsec},
    detection::{Answer, Attack, Rules, Step},
    intent::Edit,
};
use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::{
    apply::Trials,
    cluster::Membership,
    configured_lists::ConfiguredLists,
    feeds::{
        attacks::Attacks,
        crowdsec::CrowdsecFeed,
        detected::Detections,
        ended::{Ended, EndedEntries},
        lists::ListFiles,
    },
    history::History,
    last_good::LastGood,
    metrics_port::MetricsPort,
    progress::Progress,
    reconcile::Comparisons,
    stand_in::StandIn,
    state::State,
    store::Store,
    survey,
    timekeeper::Reading,
    troubles::{Loudness, Troubles},
};
use crate::{clock, crowdsec::Update, datapath::Datapath, links::Links, protected::Protected};

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
    pub(super) links: Links,
    /// When all interfaces were last looked at.
    pub(super) tended: std::time::Instant,
    pub(super) troubles: Troubles,
    pub(super) last_good: LastGood,
    pub(super) metrics_port: MetricsPort,
    /// What stands in for a state directory that cannot be written.
    pub(super) stand_in: Option<StandIn>,
    /// The thread that walks through the tables of sources.
    pub(super) walks: Option<mpsc::Sender<survey::Job>>,
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
        let state = State::new(config, store, datapath, protected, &progress)?;
        let mut controller = Self {
            trials,
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
            walks: None,
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

    /// Puts another configuration in force with the lists that it names, or leaves everything as it was.
    pub(super) fn replace_config(&mut self, config: Config, lists: &[Edit]) -> anyhow::Result<()> {
        let on_trial = self.trials.require_none_pending().is_err();
        let answer = self.state.replace_config(config, lists, on_trial);
        self.crowdsec
            .wish(self.state.intent.config.crowdsec.as_ref());
        self.cluster.wish(self.state.intent.config.cluster.as_ref());
        answer
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

    /// What is looked for.
    #[must_use]
    pub fn attack_rules(&self) -> Rules {
        self.state.intent.config.attacks.clone()
    }

    /// Takes over what was found, and bans or limits the sources that are to be.
    pub fn note_attacks(&mut self, step: &Step, going_on: Vec<Attack>) {
        let observe = self.state.intent.config.observe;
        self.attacks.note(step, going_on, observe);
        for answer in [Answer::Ban, Answer::Limit] {
            let may_answer = || self.state.may_answer();
            self.attacks
                .answer(&self.state, answer, clock::now(), may_answer);
            let _ = self.state.take(&mut self.attacks);
        }
    }

    /// Which API of `CrowdSec` is to be followed, now and after each reload.
    #[must_use]
    pub fn crowdsec_wish(&self) -> watch::Receiver<Option<Crowdsec>> {
        self.crowdsec.wishes()
    }

    /// Puts what the API answered in force, and tells whether that worked: all of it, or nothing.
    pub fn take_decisions(&mut self, update: Update) -> bool {
        self.crowdsec.answered(update);
        self.state.take(&mut self.crowdsec).is_ok()
    }

    /// Notes that the API does not answer. Its bans stay.
    pub fn lose_crowdsec(&mut self, error: String) {
        self.crowdsec.lost(&self.state, error);
    }

    /// Ends the bans of an API that the configuration names no more.
    pub fn end_crowdsec_bans(&mut self) {
        self.crowdsec.gone();
        let _ = self.state.take(&mut self.crowdsec);
    }

    /// Keeps what is in force as what a start falls back to, unless it is on trial.
    pub(super) fn keep_last_good(&mut self) {
        if let Some(texts) = self.trials.settled() {
            self.last_good.keep(texts);
        }
    }

    /// What is due each second: the clocks are read, bans that the kernel made are taken over, what ends ends, and the
    /// kernel's tables are compared with what is intended. The daemon does the same step by step.
    pub fn tick(&mut self) {
        self.begin_tick();
        if self.is_trial_over()
            && let Ok(files) = self.returning_lists()
        {
            self.end_trial(ConfiguredLists::read_some(files));
        }
        while self.compare_on() {}
    }

    /// The same but for the end of the comparison: what is left of it comes by [`compare_on`](Self::compare_on).
    pub(crate) fn begin_tick(&mut self) {
        if let Err(error) = self.state.keep_time(Reading::now()) {
            warn!(
                error = format!("{error:#}"),
                "the ends of bans, allows and limits could not be brought to the clock"
            );
        }
        self.state.tick_pass_all();
        self.tick_links();
        self.tick_metrics();
        self.tick_stand_in();
        self.last_good.catch_up();
        self.take_missed();
        // Feeds log what went wrong.
        let _ = self.state.take(&mut Ended);
        self.end_renewed();
        self.state.write_unwritten();
        self.state.keep_journal();
        self.begin_comparison();
        self.state.watch_filling();
        self.state.store.flush();
    }

    /// Forgets entries of lists that have ended.
    pub fn tick_lists(&mut self) {
        let _ = self.state.take(&mut self.ended_entries);
    }
}

#[cfg(test)]
mod tests;
