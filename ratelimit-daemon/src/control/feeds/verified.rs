//! Which sources are verified: how many there are, which proved themselves here since the last look, and those of other nodes.

use std::{net::IpAddr, time::Duration};

use ratelimit_common::{Instant, PassReason, Verdict, challenge::Verified, layout::VERIFIED_MAX};
use ratelimit_core::{challenge::Way, ip_family::IpFamily, limit::Scope, prefix::Prefix};
use tracing::warn;

use crate::{clock, control::state::State};

/// They are counted again after so long, as some end, and else once in a second in which a source proved itself.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// What proved itself so shortly before a look is left to the next one: the program may have written it after that passed by. The clock
/// that it reads may be a tick behind, too.
const SETTLING: Duration = Duration::from_millis(20);

/// So many of a family at most are verified on the word of other nodes: a half, so that the others are for who proves itself here.
const BY_PEERS_MAX: usize = VERIFIED_MAX as usize / 2;

/// The sources that are verified, as they were counted last.
#[derive(Debug, Default)]
pub struct VerifiedSources {
    looked: Option<Look>,
    here: u64,
    /// On the word of other nodes, by family.
    by_peers: [usize; 2],
}

/// The last look.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// What proved itself until then was seen.
    until: Instant,
    proofs: u64,
    /// Whether some were too new.
    is_early: bool,
}

impl VerifiedSources {
    /// Counts them, where something may have changed. Answers which proved themselves here since the last time, and until when each is
    /// verified.
    pub fn look(&mut self, state: &State) -> Vec<(IpAddr, Instant)> {
        let Some(challenge) = &state.intent.config.challenge else {
            *self = Self::default();
            return Vec::new();
        };
        let Ok(counters) = state.enforcer.datapath().counters() else {
            return Vec::new();
        };
        let proofs = counters
            .iter()
            .filter(|row| row.verdict == Verdict::Pass(PassReason::Verified));
        let proofs = proofs.map(|row| row.count.packets).sum();
        let now = clock::now();
        let is_due = self.looked.is_none_or(|last| {
            last.is_early || last.proofs != proofs || later(last.until, COUNTED_EVERY) <= now
        });
        if !is_due {
            return Vec::new();
        }
        let until = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(SETTLING)));
        let mut seen = Self {
            looked: None,
            ..Self::default()
        };
        let (mut fresh, mut is_early) = (Vec::new(), false);
        let since = self.looked.map_or(until, |last| last.until);
        // Those that proved themselves in this time end in that one, unless `for` was another when they did.
        let ends = later(since, challenge.lasts)..later(until, challenge.lasts);
        let answer = state
            .enforcer
            .datapath()
            .for_each_verified(&mut |source, verified| {
                let end = verified.until();
                if end <= now {
                    return;
                }
                if verified.is_by_peer() {
                    seen.by_peers[family(source)] += 1;
                    return;
                }
                seen.here += 1;
                is_early |= end >= ends.end;
                // A node takes what it is told for a proof by its own way.
                let is_told = challenge.way == Way::Rst || !verified.is_by_reset();
                if is_told && ends.contains(&end) {
                    fresh.push((source, end));
                }
            });
        if let Err(error) = answer {
            warn!(%error, "cannot count the verified sources");
            return Vec::new();
        }
        let looked = Some(Look {
            until,
            proofs,
            is_early: is_early && self.looked.is_none_or(|last| last.proofs != proofs),
        });
        *self = Self { looked, ..seen };
        fresh
    }

    /// How many proved themselves here, and how many are verified on the word of other nodes.
    pub fn count(&self) -> (u64, u64) {
        let by_peers: usize = self.by_peers.iter().sum();
        (self.here, by_peers as u64)
    }

    /// Notes sources that proved themselves on other nodes, each with how long it is verified there still. No source is verified for longer
    /// than `for`. Answers how many are not taken: nobody is challenged here, or not for the cluster, they are banned or no sources of this
    /// node, or there is no room.
    pub fn take_over(&mut self, state: &mut State, told: &[(Prefix, Duration)]) -> usize {
        let challenge = state.intent.config.challenge.as_ref();
        let Some(challenge) = challenge.filter(|it| it.scope == Scope::Cluster) else {
            return told.len();
        };
        let now = clock::now();
        let mut taken = Vec::new();
        for (prefix, left) in told {
            let source = state.intent.config.source.around(prefix.address());
            let held = &mut self.by_peers[family(source.address())];
            if *held >= BY_PEERS_MAX || !source.covers(*prefix) || is_banned(state, source, now) {
                continue;
            }
            *held += 1;
            let until = later(now, challenge.lasts.min(*left));
            let verified = match challenge.way {
                Way::Rst => Verified::by_peer(until).by_reset(),
                Way::Syncookie => Verified::by_peer(until),
            };
            taken.push((source.address(), verified));
        }
        if let Err(error) = state.enforcer.datapath_mut().verify(&taken) {
            warn!(%error, "cannot accept sources verified by other nodes");
            return told.len();
        }
        told.len() - taken.len()
    }
}

fn is_banned(state: &State, source: Prefix, now: Instant) -> bool {
    let mut around = source.supernets();
    around.any(|it| {
        state
            .intent
            .banned_until(it)
            .is_some_and(|until| now < until)
    })
}

fn family(source: IpAddr) -> usize {
    IpFamily::of(source) as usize
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn later(time: Instant, by: Duration) -> Instant {
    Instant::from_nanos(time.as_nanos().saturating_add(nanos(by)))
}
