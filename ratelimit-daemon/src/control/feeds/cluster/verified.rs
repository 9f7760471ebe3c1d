//! Sources that proved themselves, here and on other nodes.

use std::{net::IpAddr, time::Duration};

use ratelimit_cluster::{Millis, Received, verified::Verified};
use ratelimit_common::Instant;
use ratelimit_core::{limit::Scope, prefix::Prefix};

use super::Membership;
use crate::{clock, cluster::ClusterKey, control::state::State};

/// What the nodes told of sources that proved themselves.
#[derive(Debug, Default)]
pub(super) struct VerifiedOfPeers {
    /// Those that are yet to be taken over.
    heard: Vec<(Prefix, Duration)>,
    /// How many this node told, how many it took over, and how many not.
    pub told: u64,
    pub taken: u64,
    pub denied: u64,
}

impl VerifiedOfPeers {
    /// Takes in what a message told.
    pub fn hear(&mut self, received: &Received<ClusterKey>) {
        self.denied += received.verified_beyond as u64;
        for source in &received.verified {
            match source.key {
                ClusterKey::Prefix(prefix) => {
                    let left = Duration::from_millis(source.left);
                    self.heard.push((prefix, left));
                }
                ClusterKey::Default | ClusterKey::Budget { .. } => self.denied += 1,
            }
        }
    }
}

impl Membership {
    /// Tells the others of sources that proved themselves here, with until when each is verified.
    pub fn tell_verified(&mut self, state: &State, sources: &[(IpAddr, Instant)]) {
        let config = &state.intent.config;
        let is_told = config
            .challenge
            .as_ref()
            .is_some_and(|it| it.scope == Scope::Cluster);
        let now = self.now();
        let Some(node) = self.node.as_mut().filter(|_| is_told) else {
            return;
        };
        let since = clock::now().as_nanos();
        let left =
            |until: Instant| -> Millis { until.as_nanos().saturating_sub(since) / 1_000_000 };
        let sources = sources.iter().map(|(source, until)| Verified {
            key: ClusterKey::Prefix(config.source.around(*source)),
            left: left(*until),
        });
        self.verified.told += node.tell_verified(now, sources) as u64;
    }

    /// Takes out what the others told of, each source with for how long it is verified there still.
    pub fn take_verified(&mut self) -> Vec<(Prefix, Duration)> {
        std::mem::take(&mut self.verified.heard)
    }

    /// Counts what became of them.
    pub fn note_verified(&mut self, taken: usize, denied: usize) {
        self.verified.taken += taken as u64;
        self.verified.denied += denied as u64;
    }
}
