//! What produces changes by itself. A feed owns what it knows, reads the state and proposes edits.
//!
//! A feed never writes to the kernel or the database: its edits go through [`State::apply`]. The cluster proposes in several steps of
//! which one needs what the one before came to, and a trial has files to be read first. So neither is a [`Feed`], and both follow the
//! same rule.

pub mod adopted;
pub mod attacks;
pub mod challenge;
pub mod cluster;
pub mod connection;
pub mod crowdsec;
pub mod detected;
pub mod expiry;
pub mod list_files;
pub mod pass_all;
pub mod trials;
pub mod verified;

use std::path::Path;

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, Refused},
    config::Config,
    intent::Edit,
};

use self::{
    adopted::Adopted, attacks::Attacks, challenge::Challenge, cluster::Membership,
    crowdsec::CrowdsecFeed, detected::Detections, expiry::Ended, pass_all::PassAll, trials::Trials,
    verified::VerifiedSources,
};
use super::{lists::files::ListFiles, reports::cause::Cause, state::State};
use crate::clock;

/// Proposes changes by itself.
pub trait Feed {
    /// Why what it proposes changes.
    const CAUSE: Cause<'static> = Cause::Origin;

    /// Returns the edits that are due, which are in force all together or not at all.
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused>;

    /// Takes notice of what became of them, and logs what went wrong.
    fn settle(
        &mut self,
        state: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused>;
}

/// Puts in force what a feed proposes.
pub fn propose<F: Feed>(feed: &mut F, state: &mut State) -> Result<Changed, Refused> {
    let edits = feed.due(state, clock::now());
    let answer = edits.and_then(|edits| state.apply(edits, F::CAUSE));
    feed.settle(state, answer)
}

/// The feeds, and what they share.
pub struct Feeds {
    pub pass_all: PassAll,
    /// The configuration on trial, and the texts in force.
    pub trials: Trials,
    pub list_files: ListFiles,
    pub crowdsec: CrowdsecFeed,
    pub cluster: Membership,
    pub attacks: Attacks,
    pub detections: Detections,
    pub expiry: Ended,
    pub adopted: Adopted,
    pub challenge: Challenge,
    pub verified: VerifiedSources,
}

impl Feeds {
    /// Those of a configuration, as they were when the daemon before ended.
    pub fn restore(config: &Config, directory: &Path) -> Self {
        Self {
            pass_all: PassAll::restore(directory),
            trials: Trials::restore(config, directory),
            list_files: ListFiles::default(),
            crowdsec: CrowdsecFeed::new(config.crowdsec.clone()),
            cluster: Membership::new(config),
            attacks: Attacks::default(),
            detections: Detections::default(),
            expiry: Ended::default(),
            adopted: Adopted::default(),
            challenge: Challenge::default(),
            verified: VerifiedSources::default(),
        }
    }

    /// Puts in force what is due. Each feed logs what went wrong.
    pub fn tick(&mut self, state: &mut State) {
        self.adopted.is_over = self.is_reported_again(state);
        let _ = propose(&mut self.pass_all, state);
        let _ = propose(&mut self.detections, state);
        let _ = propose(&mut self.expiry, state);
        let _ = propose(&mut self.adopted, state);
        self.verified.look(state);
        self.challenge.tick(state, &self.verified);
        self.trials.last_good.catch_up();
    }

    /// Whether all who may ban and allow have said again whom: files of lists were read, and `CrowdSec` answered.
    fn is_reported_again(&self, state: &State) -> bool {
        let config = &state.intent.config;
        let is_read = |name: &String| self.list_files.state(name).read.is_some();
        config.lists.keys().all(is_read)
            && (config.crowdsec.is_none() || self.crowdsec.has_answered())
    }
}
