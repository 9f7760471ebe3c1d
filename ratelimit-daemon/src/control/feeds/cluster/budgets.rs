//! Budgets: limits that nodes share, the demand for them here, and the share of this node.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_cluster::{
    Millis,
    budget::{AMOUNT_MAX, Count, Division, Fallback, Limit, Share, WindowUsage},
};
use ratelimit_common::{Instant, Limit as Limited, Policy, source::LogKey};
use ratelimit_core::{
    api::SharingStatus,
    compile,
    keys::{KeyHash, KeyShare, KeyShares, KeysConfig},
    limit::{self, FRAME_BYTES, LimitSpec, LimitUnit},
    policies::{Policies, Role, wide_hash},
};
use tracing::warn;

use super::{
    Membership, Node,
    counted::Counted,
    shared_limit::{Shared, budget, log_key},
    used::used,
};
use crate::{
    clock,
    cluster::ClusterKey,
    control::{
        enforcement::enforcer::leases::{Leased, Leases},
        state::State,
    },
    datapath::{self, address_of},
    keys::Keys,
};

/// The name of the trouble that there are more nodes than configured.
const TOO_MANY: &str = "cluster nodes";

const NANOS_OF_MILLI: u64 = 1_000_000;

/// A policy with shared limits.
#[derive(Clone, Debug)]
struct Of {
    policy: Policy,
    role: Role,
    limits: Vec<LimitSpec>,
    /// The IDs of the shared limits among the nodes, by index.
    shared: BTreeMap<usize, u64>,
}

/// A key space with shared limits.
#[derive(Clone, Debug)]
struct OfSpace {
    name: String,
    /// The IDs of the shared limits among the nodes, by index.
    shared: BTreeMap<usize, u64>,
}

/// The shared limits of this node.
#[derive(Debug)]
pub(super) struct Budgets {
    keys: Keys,
    limits: BTreeMap<u64, Shared>,
    policies: BTreeMap<u32, Of>,
    /// The key spaces, by scopes that no policy has. A key has an address: its hash.
    spaces: BTreeMap<u32, OfSpace>,
    followed_keys: KeysConfig,
    hash: u64,
    /// The policies from which the limits were collected.
    followed: Option<Arc<Policies>>,
    counted: RefCell<Counted>,
    /// The period of the written leases, and the hash of the limits.
    written: Option<(u64, u64)>,
    is_failing: bool,
    /// The share of each limit of each key in the kernel.
    reported: HashMap<(LogKey, usize), Reported>,
    period: Duration,
    /// The time since which keys without their own share have the default share.
    default_since: Timestamp,
    without_room: usize,
    /// The last time limits were divided according to the reports of all nodes, the reason they
    /// currently are not, and the time since which that is so.
    divided_at: Option<Timestamp>,
    fallback: Option<Fallback>,
    since: Timestamp,
}

/// The share of a limit of a key in the kernel.
#[derive(Debug)]
struct Reported {
    share: Share,
    /// The time since which the share has this amount.
    since: Timestamp,
}

impl Budgets {
    /// Returns the budgets of a host that has joined no cluster.
    pub fn new(keys: Keys) -> Self {
        Self {
            keys,
            limits: BTreeMap::new(),
            policies: BTreeMap::new(),
            spaces: BTreeMap::new(),
            followed_keys: KeysConfig::default(),
            hash: 0,
            followed: None,
            counted: RefCell::default(),
            written: None,
            is_failing: false,
            reported: HashMap::new(),
            period: Duration::from_millis(1),
            default_since: clock::wall(),
            without_room: 0,
            divided_at: None,
            fallback: Some(Fallback::NoClock),
            since: clock::wall(),
        }
    }

    /// Starts with periods of this length.
    pub fn begin(&mut self, period: Duration) {
        self.period = period;
        self.reported.clear();
    }

    /// Follows the policies in force.
    pub fn follow(&mut self, state: &State) {
        let (policies, keys) = (&state.compiled.policies, &state.intent.config.keys);
        let is_known = |known: &Arc<Policies>| Arc::ptr_eq(known, policies);
        if self.followed.as_ref().is_some_and(is_known) && self.followed_keys == *keys {
            return;
        }
        self.followed = Some(Arc::clone(policies));
        self.followed_keys.clone_from(keys);
        self.default_since = clock::wall();
        let nodes = compile::nodes(&state.intent.config);
        (self.limits, self.policies) = (BTreeMap::new(), BTreeMap::new());
        let mut text = nodes.to_string();
        for (scope, (name, role, part)) in policies.parts() {
            if !part.policy.is_of_cluster() {
                continue;
            }
            let mut of = Of {
                policy: *part.policy,
                role,
                limits: part.limits.to_vec(),
                shared: BTreeMap::new(),
            };
            for (index, spec) in part.limits.iter().enumerate() {
                if let Some((id, shared)) = shared(name, (scope, index), spec, &mut text) {
                    of.shared.insert(index, id);
                    self.limits.insert(id, shared);
                }
            }
            self.policies.insert(scope, of);
        }
        self.spaces = BTreeMap::new();
        let mut free = (0..).filter(|scope| !self.policies.contains_key(scope));
        for (name, space) in &keys.spaces {
            let mut of = OfSpace {
                name: name.clone(),
                shared: BTreeMap::new(),
            };
            let Some(scope) = free.next() else { break };
            for (index, limit) in space.limits.iter().enumerate() {
                let name = format!("[keys.{name}]");
                if let Some((id, shared)) = shared(&name, (scope, index), &limit.0, &mut text) {
                    of.shared.insert(index, id);
                    self.limits.insert(id, shared);
                }
            }
            if !of.shared.is_empty() {
                self.spaces.insert(scope, of);
            }
        }
        self.hash = wide_hash(text.as_bytes());
    }

    /// Returns a hash of all shared limits.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    pub fn limit(&self, key: &ClusterKey) -> Option<Limit> {
        let ClusterKey::Budget { limit, .. } = key else {
            return None;
        };
        self.limits.get(limit).map(|shared| shared.limit)
    }

    /// Returns the demand since the last call, in units of the limits' amounts, for up to a window.
    pub fn counts(&self, state: &State) -> Vec<Count<ClusterKey>> {
        if self.limits.is_empty() {
            return Vec::new();
        }
        let mut demands = match state.enforcer.datapath().leases.demands() {
            Ok(demands) => demands,
            Err(error) => {
                warn!(%error, "cannot read the demand for shared limits");
                return Vec::new();
            }
        };
        for (scope, space) in &self.spaces {
            let own = self.keys.demands(&space.name).into_iter();
            demands.extend(own.map(|(hash, demand)| (log_key(hash.into(), *scope), demand)));
        }
        let limits = |key: &LogKey| {
            let of_policy = self.policies.get(&key.scope()).map(|of| &of.shared);
            let of_space = self.spaces.get(&key.scope()).map(|of| &of.shared);
            let shared = of_policy.or(of_space).into_iter().flatten();
            shared.filter_map(|(index, id)| Some((*id, *index, self.limits.get(id)?)))
        };
        let mut counted = self.counted.borrow_mut();
        counted.take(demands, self.period, limits)
    }

    /// Returns the usage of a key's windows from now until `later` milliseconds from now. An
    /// unreadable one counts as fully used.
    pub fn held(&self, state: &State, key: &ClusterKey, later: Millis) -> WindowUsage {
        let Some(((key, index), shared)) = self.place(key) else {
            return WindowUsage::default();
        };
        let later = later.saturating_mul(NANOS_OF_MILLI);
        let Some(of) = self.policies.get(&key.scope()) else {
            return self.held_by_key(&key, index, later);
        };
        let now = clock::now();
        let then = Instant::from_nanos(now.as_nanos().saturating_add(later));
        let tables = &state.enforcer.datapath().sources;
        let algorithm = of.limits[index].compile().algorithm();
        used(
            tables,
            (&key, index),
            of.role,
            (&of.policy, &algorithm),
            (now, then),
        )
        .unwrap_or(WindowUsage {
            then: shared.limit.amount,
            ending: 0,
        })
    }

    /// Returns the usage of a key of a space.
    fn held_by_key(&self, key: &LogKey, index: usize, later_ns: u64) -> WindowUsage {
        let Some(space) = self.spaces.get(&key.scope()) else {
            return WindowUsage::default();
        };
        let [now, then] = self.keys.used(&space.name, &hash_of(key), index, later_ns);
        WindowUsage {
            then,
            ending: if then == 0 { now } else { 0 },
        }
    }

    /// Gives the keys of all spaces their shares.
    fn share_keys(&self) {
        let mut shares: BTreeMap<u32, KeyShares> = self
            .spaces
            .keys()
            .map(|scope| (*scope, KeyShares::new()))
            .collect();
        for ((key, index), Reported { share, .. }) in &self.reported {
            let Some(of_space) = shares.get_mut(&key.scope()) else {
                continue;
            };
            of_space.entry(hash_of(key)).or_default()[*index] = Some(KeyShare {
                amount: share.amount,
                until: Instant::from_nanos(share.until.saturating_mul(NANOS_OF_MILLI)),
                then: share.then,
            });
        }
        for (scope, shares) in shares {
            self.keys.set_shares(&self.spaces[&scope].name, shares);
        }
    }

    /// Returns the leases to write, if they changed.
    fn due_leases(&mut self, node: &Node<ClusterKey>) -> Option<Leases> {
        let wanted = node.budget().period().map(|period| (period, self.hash));
        if self.written == wanted {
            return None;
        }
        self.written = wanted;
        self.note(node);
        Some(Leases {
            leases: self.leases(),
            counted: {
                let counted = self.counted.borrow();
                let keys = counted.keys();
                keys.filter(|key| self.policies.contains_key(&key.scope()))
                    .collect()
            },
        })
    }

    /// Records how many leases had no room, or why none is in force.
    fn settle_leases(&mut self, answer: datapath::Result<usize>) {
        self.without_room = *answer.as_ref().unwrap_or(&0);
        let is_failing = !matches!(answer, Ok(0));
        if is_failing && !self.is_failing {
            match answer {
                Ok(without) => warn!(
                    without,
                    "some sources get limit/nodes because the share table is full"
                ),
                Err(error) => warn!(%error, "cannot apply the shares of limits"),
            }
        }
        self.is_failing = is_failing;
    }

    /// Records the shares, the time since which they apply, and whether they result from a
    /// division.
    fn note(&mut self, node: &Node<ClusterKey>) {
        let at = clock::wall();
        let mut before = std::mem::take(&mut self.reported);
        for (key, share) in node.budget().shares() {
            let Some((place, _)) = self.place(key) else {
                continue;
            };
            // The least that the kernel can enforce.
            let share = Share {
                amount: share
                    .amount
                    .max(u64::from(!self.spaces.contains_key(&place.0.scope()))),
                ..share
            };
            let before = before.remove(&place).map(|it| (it.share.amount, it.since));
            let before = before.filter(|(amount, _)| *amount == share.amount);
            let since = before.map_or(at, |(_, since)| since);
            let reported = Reported { share, since };
            self.reported.insert(place, reported);
        }
        let fallback = node.budget().fallback();
        if self.fallback.is_some() != fallback.is_some() {
            self.since = at;
        }
        if fallback.is_none() {
            self.divided_at = Some(at);
        }
        self.fallback = fallback.cloned();
    }

    /// Returns the kernel's key, the index of the limit, and the limit of a key of the cluster.
    fn place(&self, key: &ClusterKey) -> Option<((LogKey, usize), &Shared)> {
        let ClusterKey::Budget { address, limit } = key else {
            return None;
        };
        let shared = self.limits.get(limit)?;
        let key = log_key(*address, shared.scope);
        Some(((key, shared.index), shared))
    }

    pub fn end(&mut self) {
        (self.written, self.divided_at) = (None, None);
        self.reported.clear();
        self.share_keys();
        (self.fallback, self.since) = (Some(Fallback::NoClock), clock::wall());
    }

    /// Returns the leases that give each key its shares.
    fn leases(&self) -> Vec<Leased> {
        let mut by_key: HashMap<LogKey, BTreeMap<usize, Share>> = HashMap::new();
        for ((key, index), reported) in &self.reported {
            by_key
                .entry(*key)
                .or_default()
                .insert(*index, reported.share);
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

    /// Returns the leases in the kernel from before a restart: for each key the smaller of the
    /// current and the next amount.
    pub fn leased(&self, state: &State) -> BTreeMap<ClusterKey, u64> {
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
    /// Brings the leases in the kernel up to date.
    pub fn lease(&mut self, state: &mut State) {
        let node = self.node.as_ref();
        if let Some(wanted) = node.and_then(|node| self.budgets.due_leases(node)) {
            self.budgets.share_keys();
            self.budgets.settle_leases(state.lease(&wanted));
        }
    }

    /// Returns the time since which this node has the amount `here` of a limit of a key, and the
    /// total of all other nodes, if known.
    pub fn share(&self, key: &LogKey, index: usize, here: u64) -> (Option<Timestamp>, Option<u64>) {
        let (Some(node), budgets) = (&self.node, &self.budgets) else {
            return (None, None);
        };
        let Some(reported) = budgets.reported.get(&(*key, index)) else {
            return (Some(budgets.default_since), None);
        };
        let id = budgets.policies.get(&key.scope());
        let id = id.and_then(|of| of.shared.get(&index));
        let others = id.and_then(|id| node.budget().others(&budget(key, *id)));
        // An expired lease, when the next period is late, leaves another amount.
        let since = (reported.share.amount == here).then_some(reported.since);
        (since, others.filter(|_| since.is_some()))
    }

    /// Returns how limits are divided. `None` if none is shared, or this host has not joined yet.
    pub(super) fn sharing(&self) -> Option<SharingStatus> {
        let (node, budgets) = (self.node.as_ref()?, &self.budgets);
        let is_lost = self.connection.connected == Some(false);
        let lost = is_lost.then(|| self.connection.error.as_deref().unwrap_or_default());
        let status = self.connection.reported(|config| SharingStatus {
            keys: budgets.reported.len(),
            without_room: budgets.without_room,
            period_seconds: config.period.as_secs_f64(),
            configured_nodes: config.nodes,
            divided_by: node.budget().members().size(),
            divided_at: budgets.divided_at,
            fallback: budgets.fallback.as_ref().map(|it| why(it, lost)),
            since: budgets.since,
        });
        status.filter(|_| !budgets.limits.is_empty())
    }

    /// Reports whether there are more nodes than configured: together they may exceed the limits.
    pub fn report_excess(&self, state: &mut State) {
        let node = self.node.as_ref();
        let nodes = node.map_or(0, |node| node.budget().members().names().len());
        let configured = self.connection.reported(|config| config.nodes);
        let configured = configured.and_then(|nodes| usize::try_from(nodes).ok());
        let exceeded = configured.filter(|it| !self.budgets.limits.is_empty() && nodes > *it);
        let excess = exceeded.map(|configured| {
            format!(
                "{nodes} nodes are active, but `nodes` of [cluster] is {configured}: each admits \
                 the limit divided by {configured} without a share, so together they may exceed \
                 it; set nodes = {nodes} on all of them, or revoke nodes that are gone"
            )
        });
        state.report(TOO_MANY, excess);
    }
}

/// Converts to milliseconds, at least 1.
fn millis(time: Duration) -> Millis {
    time.as_millis().try_into().unwrap_or(Millis::MAX)
}

/// Returns a limit that nodes share and its ID, which is added to `text`. `None` if each node has
/// its own.
fn shared(
    name: &str,
    (scope, index): (u32, usize),
    spec: &LimitSpec,
    text: &mut String,
) -> Option<(u64, Shared)> {
    let limit = limit_of(spec)?;
    let id = format!("{name}\n{index}\n{spec}\n{:?}\n", limit.division);
    text.push_str(&id);
    let shared = Shared {
        scope,
        index,
        limit,
        window: spec.window(),
        quantum: match spec.unit() {
            LimitUnit::Packets => 1,
            LimitUnit::Bytes => FRAME_BYTES,
        },
    };
    Some((wide_hash(id.as_bytes()), shared))
}

/// Returns the hash that names a key of a space, which is its address.
fn hash_of(key: &LogKey) -> KeyHash {
    match address_of(key) {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
    }
}

fn limit_of(spec: &LimitSpec) -> Option<Limit> {
    Some(Limit {
        amount: spec.amount().min(AMOUNT_MAX),
        division: match spec.division()? {
            limit::Division::Equal => Division::Equal,
            limit::Division::Proportional => Division::Proportional,
        },
        window: millis(spec.window()),
    })
}

fn why(fallback: &Fallback, lost: Option<&str>) -> String {
    match (fallback, lost) {
        (_, Some(error)) => format!("the store is unreachable: {error}"),
        (Fallback::NoClock, None) => "the time of the store is not known yet".to_owned(),
        (Fallback::Started, None) => "this node started less than two periods ago".to_owned(),
        (Fallback::Unheard { members, more }, None) => {
            let names: Vec<String> = members.iter().map(ToString::to_string).collect();
            let unheard = (!names.is_empty()).then(|| {
                let names = names.join(", ");
                format!("no report with the same nodes and limits from {names}")
            });
            let never = (*more > 0).then(|| format!("nodes never heard from: {more}"));
            let reasons: Vec<String> = unheard.into_iter().chain(never).collect();
            reasons.join("; ")
        }
    }
}
