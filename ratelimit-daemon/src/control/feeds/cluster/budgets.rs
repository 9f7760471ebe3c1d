//! Budgets: the limits that nodes share, what packets asked of them here, and what this node may admit.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::{Duration, Instant as Moment},
};

use ratelimit_cluster::budget::{AMOUNT_MAX, Count, Division, Limit, Share};
use ratelimit_common::{
    Instant, Ipv4, Ipv6, Limit as Limited, Policy, SourceKey, lease::Demand, source::LogKey,
};
use ratelimit_core::{
    compile,
    limit::{self, LimitSpec},
    policies::{Policies, wide_hash},
};
use tracing::warn;

use super::{Membership, Node};
use crate::{
    cluster::ClusterKey,
    control::{enforcer::leases::Leased, state::State},
};

const NANOS_OF_MILLI: u64 = 1_000_000;

/// A limit that nodes share.
#[derive(Clone, Debug)]
struct Shared {
    scope: u32,
    /// Its index in the policy.
    index: usize,
    limit: Limit,
    window: Duration,
}

/// A policy that has some.
#[derive(Clone, Debug)]
struct Of {
    policy: Policy,
    limits: Vec<LimitSpec>,
    /// The limits that are shared, by their index, as other nodes know them.
    shared: BTreeMap<usize, u64>,
}

/// What nodes share here.
#[derive(Debug)]
pub(super) struct Budgets {
    limits: BTreeMap<u64, Shared>,
    policies: BTreeMap<u32, Of>,
    hash: u64,
    /// The policies that all of this is of.
    followed: Option<Arc<Policies>>,
    counted: RefCell<Counted>,
    /// The period for which leases were written, and the terms of their policies.
    written: Option<(u64, u64)>,
    is_failing: bool,
}

/// What was counted until a moment.
#[derive(Debug)]
struct Counted {
    at: Moment,
    demands: HashMap<LogKey, Demand>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            limits: BTreeMap::new(),
            policies: BTreeMap::new(),
            hash: 0,
            followed: None,
            counted: RefCell::new(Counted {
                at: Moment::now(),
                demands: HashMap::new(),
            }),
            written: None,
            is_failing: false,
        }
    }
}

impl Budgets {
    /// Follows the policies that are in force.
    pub fn follow(&mut self, state: &State) {
        let policies = &state.policies;
        let is_known = |known: &Arc<Policies>| Arc::ptr_eq(known, policies);
        if self.followed.as_ref().is_some_and(is_known) {
            return;
        }
        self.followed = Some(Arc::clone(policies));
        let nodes = compile::nodes(&state.intent.config);
        (self.limits, self.policies) = (BTreeMap::new(), BTreeMap::new());
        let mut text = nodes.to_string();
        for (scope, (name, _, part)) in policies.parts() {
            if !part.policy.is_of_cluster() {
                continue;
            }
            let mut of = Of {
                policy: *part.policy,
                limits: part.limits.to_vec(),
                shared: BTreeMap::new(),
            };
            for (index, spec) in part.limits.iter().enumerate() {
                let Some(limit) = limit_of(spec) else {
                    continue;
                };
                let id = format!("{name}\n{index}\n{spec}\n{:?}\n", limit.division);
                text.push_str(&id);
                let id = wide_hash(id.as_bytes());
                of.shared.insert(index, id);
                let window = spec.window();
                let shared = Shared {
                    scope,
                    index,
                    limit,
                    window,
                };
                self.limits.insert(id, shared);
            }
            self.policies.insert(scope, of);
        }
        self.hash = wide_hash(text.as_bytes());
    }

    /// A hash of all limits that are shared.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The limit of a key.
    pub fn limit(&self, key: &ClusterKey) -> Option<Limit> {
        let ClusterKey::Budget { limit, .. } = key else {
            return None;
        };
        self.limits.get(limit).map(|shared| shared.limit)
    }

    /// What packets asked since the last call, in units of the limits' amounts: of what a period saw, as much as a window has.
    pub fn counts(&self, state: &State) -> Vec<Count<ClusterKey>> {
        if self.limits.is_empty() {
            return Vec::new();
        }
        let demands = match state.enforcer.demands() {
            Ok(demands) => demands,
            Err(error) => {
                warn!(%error, "what sources ask of limits of the cluster is not known");
                return Vec::new();
            }
        };
        let mut counted = self.counted.borrow_mut();
        let elapsed = counted.at.elapsed();
        let before = std::mem::take(&mut counted.demands);
        counted.at = Moment::now();
        let mut counts = Vec::new();
        for (key, demand) in &demands {
            let Some(of) = self.policies.get(&key.scope()) else {
                continue;
            };
            let before = before.get(key).copied().unwrap_or_default();
            for (index, id) in &of.shared {
                let window = self.limits.get(id).map(|shared| shared.window);
                let window = window.unwrap_or_default();
                // What was evicted and came back begins at 0.
                let since = |now: &[u64; 8], before: &[u64; 8]| {
                    let (now, before) = (now[*index], before[*index]);
                    scaled(now.checked_sub(before).unwrap_or(now), window, elapsed)
                };
                let admitted = since(&demand.admitted, &before.admitted);
                let refused = since(&demand.refused, &before.refused);
                if admitted + refused > 0 {
                    counts.push(Count {
                        key: budget(key, *id),
                        admitted,
                        refused,
                    });
                }
            }
        }
        counted.demands = demands.into_iter().collect();
        counts
    }

    /// Has the kernel admit what a node may, where that is not what it does.
    fn lease(&mut self, node: &Node<ClusterKey>, state: &mut State) {
        let wanted = node.budget().period().map(|period| (period, self.hash));
        if self.written == wanted {
            return;
        }
        self.written = wanted;
        let answer = state.enforcer.lease(&self.leases(node));
        let is_failing = !matches!(answer, Ok(0));
        if is_failing && !self.is_failing {
            match answer {
                Ok(without) => warn!(
                    without,
                    "some sources have the limit divided by the nodes: there is no room for their shares"
                ),
                Err(error) => warn!(%error, "the shares of limits are not in force"),
            }
        }
        self.is_failing = is_failing;
    }

    /// What every source may always use is all that is left of the limits.
    pub fn end(&mut self, state: &mut State) {
        self.written = None;
        if let Err(error) = state.enforcer.lease(&[]) {
            warn!(%error, "the shares of limits are in force still");
        }
    }

    /// The leases that give each key its shares.
    fn leases(&self, node: &Node<ClusterKey>) -> Vec<Leased> {
        let mut by_key: HashMap<LogKey, BTreeMap<usize, Share>> = HashMap::new();
        for (key, share) in node.shares() {
            let ClusterKey::Budget { address, limit } = key else {
                continue;
            };
            if let Some(shared) = self.limits.get(limit) {
                let shares = by_key.entry(log_key(*address, shared.scope)).or_default();
                shares.insert(shared.index, share);
            }
        }
        let leases = by_key.into_iter().filter_map(|(key, shares)| {
            let of = self.policies.get(&key.scope())?;
            let until = shares.values().map(|share| share.until).max()?;
            let with = |amount: fn(&Share) -> u64| {
                shares.iter().fold(of.policy, |policy, (index, share)| {
                    let spec = of.limits[*index].with_amount(amount(share));
                    policy.with_algorithm(*index, spec.compile().algorithm())
                })
            };
            Some(Leased {
                key,
                now: with(|share| share.amount),
                until: Instant::from_nanos(until.saturating_mul(NANOS_OF_MILLI)),
                then: with(|share| share.then),
            })
        });
        leases.collect()
    }

    /// What the kernel has leased from before a restart: of each key the smaller of what it is and what it becomes.
    pub fn held(&self, state: &State) -> BTreeMap<ClusterKey, u64> {
        let leased = state.enforcer.leased().unwrap_or_default();
        let amounts = leased.iter().flat_map(|(key, [now, then])| {
            let of = self.policies.get(&key.scope());
            let of = of.filter(|of| now.terms() == of.policy.terms());
            let shared = of.into_iter().flat_map(|of| &of.shared);
            shared.filter_map(|(index, id)| {
                let amount = |policy: &Policy| policy.limit(*index).map(Limited::capacity);
                Some((budget(key, *id), amount(now)?.min(amount(then)?)))
            })
        });
        amounts.collect()
    }
}

impl Membership {
    /// Has the kernel admit what this node may, where that is not what it does.
    pub(super) fn lease(&mut self, state: &mut State) {
        if let Some(node) = &self.node {
            self.budgets.lease(node, state);
        }
    }
}

fn limit_of(spec: &LimitSpec) -> Option<Limit> {
    Some(Limit {
        amount: spec.amount().min(AMOUNT_MAX),
        division: match spec.division()? {
            limit::Division::Equal => Division::Equal,
            limit::Division::Proportional => Division::Proportional,
        },
    })
}

fn scaled(count: u64, window: Duration, elapsed: Duration) -> u64 {
    let scaled = u128::from(count) * window.as_nanos() / elapsed.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX).min(AMOUNT_MAX)
}

fn budget(key: &LogKey, limit: u64) -> ClusterKey {
    let address = Ipv6Addr::from(key.octets());
    let address = match address.to_ipv4_mapped() {
        Some(address) if key.is_ipv4() => IpAddr::V4(address),
        _ => IpAddr::V6(address),
    };
    ClusterKey::Budget { address, limit }
}

fn log_key(address: IpAddr, scope: u32) -> LogKey {
    match address {
        IpAddr::V4(address) => LogKey::new(&SourceKey::new(Ipv4::from(address), scope)),
        IpAddr::V6(address) => LogKey::new(&SourceKey::new(Ipv6::from(address), scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_kernel_is_that_of_the_cluster_and_back() {
        for text in ["192.0.2.1", "2001:db8::", "::", "::ffff:0:0"] {
            let address: IpAddr = text.parse().unwrap();
            let key = log_key(address, 7);
            assert_eq!(budget(&key, 9), ClusterKey::Budget { address, limit: 9 });
        }
    }

    #[test]
    fn a_count_is_as_much_as_a_window_has() {
        let (second, half) = (Duration::from_secs(1), Duration::from_millis(500));
        assert_eq!(scaled(300, second, half), 600);
        assert_eq!(scaled(300, half, second), 150);
        assert_eq!(scaled(u64::MAX, second, half), AMOUNT_MAX);
        assert_eq!(scaled(1, second, Duration::ZERO), 1_000_000_000);
    }
}
