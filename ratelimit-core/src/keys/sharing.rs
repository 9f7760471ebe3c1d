//! The limits of a space that the nodes of a cluster share: the demand for them on this node, and
//! its shares.

use std::{collections::HashMap, hash::RandomState, time::Duration};

use lru::LruCache;
use ratelimit_common::{Instant, lease::Demand, limit::LIMITS_MAX};
use sha2::{Digest as _, Sha256};

use super::{SpaceConfig, counted::Counted, space::cache};

/// Names a key among the nodes: the first half of its SHA-256.
pub type KeyHash = [u8; 16];

/// The share of this node in a limit of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyShare {
    /// The amount until `until`.
    pub amount: u64,
    /// The end of the lease, on the clock of the spaces.
    pub until: Instant,
    /// The amount from then on.
    pub then: u64,
}

/// The shares of each key, by limit.
pub type KeyShares = HashMap<KeyHash, [Option<KeyShare>; LIMITS_MAX]>;

/// The shared limits of a space.
#[derive(Debug)]
pub(super) struct Sharing {
    /// A key without a share of its own gets each limit divided by this.
    nodes: u64,
    shares: KeyShares,
    demands: LruCache<KeyHash, KeyDemand, RandomState>,
}

#[derive(Debug)]
struct KeyDemand {
    key: Box<str>,
    demand: Demand,
    at: Instant,
}

impl Sharing {
    /// Returns the sharing of a space; `None` if none of its limits is shared.
    pub fn new(config: &SpaceConfig) -> Option<Self> {
        let mut limits = config.limits.iter();
        limits
            .any(|limit| limit.0.division().is_some())
            .then(|| Self {
                nodes: config.nodes,
                shares: HashMap::new(),
                demands: cache(config.capacity),
            })
    }

    /// Returns the number of nodes.
    pub const fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Replaces the shares.
    pub fn set_shares(&mut self, shares: KeyShares) {
        self.shares = shares;
    }

    /// Returns the limits of a key at `now` as this node may use them.
    pub fn limits(&self, limits: &[Counted], key: &str, now: Instant) -> Vec<Counted> {
        let shares = self.shares.get(&hash(key));
        let limits = limits.iter().enumerate().map(|(index, limit)| {
            let mut limit = limit.clone();
            if limit.spec.division().is_some() {
                let share = shares.and_then(|shares| shares[index]);
                limit.share = Some(match share {
                    Some(share) if now < share.until => share.amount,
                    Some(share) => share.then,
                    None => limit.spec.amount() / self.nodes.max(1),
                });
            }
            limit
        });
        limits.collect()
    }

    /// Counts a request: the amount that it obtained, and the amount that each limit refused.
    pub fn count(
        &mut self,
        key: &str,
        obtained: u64,
        refused: impl Iterator<Item = u64>,
        now: Instant,
    ) {
        let known = self.demands.get_or_insert_mut(hash(key), || KeyDemand {
            key: key.into(),
            demand: Demand::default(),
            at: now,
        });
        known.at = now;
        for (index, refused) in refused.take(LIMITS_MAX).enumerate() {
            known.demand.admitted[index] += obtained;
            known.demand.refused[index] += refused;
        }
    }

    /// Returns the demand of each key since it was first asked about. A key without requests for
    /// `window` is forgotten.
    pub fn demands(&mut self, window: Duration, now: Instant) -> Vec<(KeyHash, Demand)> {
        let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let is_over =
            |known: &KeyDemand| known.at.as_nanos().saturating_add(window) < now.as_nanos();
        while self
            .demands
            .peek_lru()
            .is_some_and(|(_, known)| is_over(known))
        {
            self.demands.pop_lru();
        }
        let demands = self.demands.iter();
        demands.map(|(hash, known)| (*hash, known.demand)).collect()
    }

    /// Returns the key with this hash, if this node has been asked about it.
    pub fn key(&self, hash: &KeyHash) -> Option<&str> {
        self.demands.peek(hash).map(|known| &*known.key)
    }
}

fn hash(key: &str) -> KeyHash {
    let mut first = KeyHash::default();
    first.copy_from_slice(&Sha256::digest(key)[..size_of::<KeyHash>()]);
    first
}
