//! Feeds: components that change the state on their own. A feed owns its data, reads the state and
//! proposes edits.
//!
//! A feed never writes to the kernel or the database: its edits go through [`State::apply`]. The
//! cluster proposes in several steps that depend on each other, and a trial needs files to be read
//! first. So neither is a [`Feed`], but both follow the same rule.

pub mod adopted;
pub mod attacks;
pub mod challenge;
pub mod cluster;
pub mod connection;
pub mod crowdsec;
pub mod expiry;
pub mod folding;
pub mod list_files;
pub mod pass_all;
pub mod policy_bans;
pub mod tcp_connections;
pub mod trials;
pub mod upstream;
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
    crowdsec::CrowdsecFeed, expiry::Ended, folding::Folding, pass_all::PassAll,
    policy_bans::PolicyBans, tcp_connections::Connections, trials::Trials, upstream::UpstreamFeed,
    verified::VerifiedSources,
};
use super::{lists::files::ListFiles, reports::cause::Cause, state::State};
use crate::{clock, keys::Keys};

/// A source of edits.
pub trait Feed {
    /// The cause of its edits.
    const CAUSE: Cause<'static> = Cause::Origin;

    /// Returns the edits that are due. They are applied together, or not at all.
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused>;

    /// Takes note of the result, and logs failures.
    fn settle(
        &mut self,
        state: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused>;
}

/// Applies the edits that a feed proposes.
pub fn propose<F: Feed>(feed: &mut F, state: &mut State) -> Result<Changed, Refused> {
    let edits = feed.due(state, clock::now());
    let answer = edits.and_then(|edits| state.apply(edits, F::CAUSE));
    feed.settle(state, answer)
}

/// All feeds, and their shared state.
pub struct Feeds {
    pub pass_all: PassAll,
    pub trials: Trials,
    pub list_files: ListFiles,
    pub crowdsec: CrowdsecFeed,
    pub cluster: Membership,
    pub attacks: Attacks,
    pub connections: Connections,
    pub policy_bans: PolicyBans,
    pub expiry: Ended,
    pub adopted: Adopted,
    pub folding: Folding,
    pub challenge: Challenge,
    pub verified: VerifiedSources,
    pub upstream: UpstreamFeed,
}

impl Feeds {
    /// Restores the feeds to their state at the end of the previous daemon.
    pub fn restore(config: &Config, directory: &Path, keys: Keys) -> Self {
        Self {
            pass_all: PassAll::restore(directory),
            trials: Trials::restore(config, directory),
            list_files: ListFiles::default(),
            crowdsec: CrowdsecFeed::new(config.crowdsec.clone()),
            cluster: Membership::new(config, keys),
            attacks: Attacks::default(),
            connections: Connections::default(),
            policy_bans: PolicyBans::default(),
            expiry: Ended::default(),
            adopted: Adopted::default(),
            folding: Folding::default(),
            challenge: Challenge::default(),
            verified: VerifiedSources::default(),
            upstream: UpstreamFeed::default(),
        }
    }

    /// Applies the edits that are due. Each feed logs its failures. `is_detached` is whether an
    /// operator detached the program.
    pub fn tick(&mut self, state: &mut State, is_detached: bool) {
        self.adopted.is_over = self.is_reported_again(state);
        let _ = propose(&mut self.pass_all, state);
        let _ = propose(&mut self.policy_bans, state);
        let _ = propose(&mut self.expiry, state);
        let _ = propose(&mut self.adopted, state);
        let _ = propose(&mut self.folding, state);
        self.verified.look(state);
        self.challenge.tick(state, &self.verified);
        self.upstream.tick(state, is_detached);
        self.trials.last_good.catch_up();
    }

    /// Returns whether every automatic source of bans and allows has reported again: all list files
    /// were read, and `CrowdSec` answered.
    fn is_reported_again(&self, state: &State) -> bool {
        let config = &state.intent.config;
        let is_read = |name: &String| self.list_files.state(name).read.is_some();
        config.lists.keys().all(is_read)
            && (config.crowdsec.is_none() || self.crowdsec.has_answered())
    }
}
