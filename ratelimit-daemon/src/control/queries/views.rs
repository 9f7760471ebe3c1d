//! What the controller tells: nothing here changes anything.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use ratelimit_common::{DropReason, Verdict, detected::Tally};
use ratelimit_core::{
    api::{
        Allow, AppliesTo, Ban, ClassView, DamagedDatabase, DatabaseStatus, MapStatus, Origin,
        PassAllStatus, PolicyView, Refused, RuntimeEntry, StatsRow, Status,
    },
    class::Class,
    config::OnStop,
    intent::{AllowRow, BanRow, Edit, LimitRow},
    ip_family::IpFamily,
    policies::{DEFAULT, NODE, Named, Role, is_detected},
    prefix::Prefix,
};

use super::{export, new_sources};
use crate::{
    clock,
    control::{
        commands::LookAtLinks,
        controller::{Controller, Reloads},
        feeds::detected::Detections,
        handle::{Handle, Unanswered},
        reconcile::Reconciliation,
        reserve::Filling,
        scanner::Sources,
        state::State,
        store::Found,
        term,
    },
    datapath::{CounterRow, DatapathError, Totals},
};

/// What the metrics are made of.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The daemon and its interfaces.
    pub status: Status,
    /// The counters, with the names of their interfaces.
    pub counters: Vec<(String, CounterRow)>,
    /// Sums over the CPUs.
    pub totals: Totals,
    /// What became of the sources that policies were to ban.
    pub tally: Tally,
    /// The bans that were taken over, by policy.
    pub detections: Detections,
    /// The attacks that were found, by kind.
    pub attacks: BTreeMap<ratelimit_core::detection::Kind, u64>,
    /// The sources that got a further limit, by the attack.
    pub limited: BTreeMap<ratelimit_core::detection::Kind, u64>,
    /// Sources that have state, and that had to give theirs away.
    pub sources: Sources,
    /// How reloads went.
    pub reloads: Reloads,
    /// How what is enforced stands to what is intended.
    pub reconciliation: Reconciliation,
    /// How lists have filled.
    pub filling: Filling,
}

/// The state of the daemon and its datapath.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn status(controller: &Handle) -> Result<Status, Unanswered> {
    controller.call(LookAtLinks).await?;
    let policies = |controller: &Controller| {
        let is_compact = is_compact(&controller.state);
        is_compact.then(|| Arc::clone(&controller.state.policies))
    };
    let slots = match controller.ask(policies).await? {
        Some(policies) => {
            let count = controller.scan(move |scanner| scanner.count_slots(&policies));
            count.await?.ok()
        }
        None => None,
    };
    controller
        .ask(move |controller| controller.status_with(slots))
        .await
}

/// The bans, in the order of their prefixes and origins. The controller is asked for them part by part: those that are there all
/// the while are told.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn bans_in_parts(controller: &Handle) -> Result<Vec<Ban>, Unanswered> {
    let mut bans = Vec::new();
    let mut behind = None;
    loop {
        let part =
            controller.ask(move |controller| export::some_bans(&controller.state, behind.as_ref()));
        let part = part.await?;
        let Some((prefix, origin, _)) = part.last() else {
            return Ok(bans);
        };
        behind = Some((*prefix, origin.clone()));
        let told = part.into_iter();
        bans.extend(told.map(|(prefix, origin, row)| ban(prefix, &origin, &row)));
    }
}

/// What the metrics are made of. Refused is what cannot be read.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn scrape(controller: &Handle) -> Result<Result<Snapshot, Refused>, Unanswered> {
    controller.call(LookAtLinks).await?;
    let policies = controller.ask(|controller| Arc::clone(&controller.state.policies));
    let policies = policies.await?;
    let count = controller.scan(move |scanner| scanner.count_sources(&policies));
    match count.await? {
        Ok(sources) => {
            controller
                .ask(move |controller| controller.snapshot(sources))
                .await
        }
        Err(error) => Ok(Err(error.into())),
    }
}

/// Since when, until when and by whom everything passes; `None` when packets are judged.
#[must_use]
pub fn pass_all(controller: &Controller) -> Option<&PassAllStatus> {
    controller.pass_all.status()
}

/// What becomes of the programs when the daemon stops.
#[must_use]
pub fn on_stop(state: &State) -> OnStop {
    state.intent.config.on_stop
}

/// How many bans there are that have not ended.
fn count_bans(state: &State) -> usize {
    let ended = state.intent.ended(clock::now());
    let ended = ended.iter().filter(|edit| matches!(edit, Edit::Ban(..)));
    state.intent.bans().len().saturating_sub(ended.count())
}

fn database(state: &State) -> DatabaseStatus {
    let damaged = match state.store.found() {
        Found::Damaged(damage) => Some(DamagedDatabase {
            file: damage.file.display().to_string(),
            error: damage.error.clone(),
        }),
        Found::Sound | Found::Nothing => None,
    };
    DatabaseStatus {
        damaged,
        aside: state.store.count_aside(),
        suspended: state.intent.suspended_limits(),
    }
}

/// The bans, in the order of their prefixes and origins.
#[must_use]
pub fn bans(state: &State) -> Vec<Ban> {
    let now = clock::now();
    let lasting = state.intent.bans().iter();
    lasting
        .filter(|(_, row)| row.until > now)
        .map(|((prefix, origin), row)| ban(*prefix, origin, row))
        .collect()
}

/// The allow list: that of the configuration, and what was added at runtime.
#[must_use]
pub fn allows(state: &State) -> Vec<Allow> {
    let now = clock::now();
    let allows = state.intent.allows();
    let lasts = |prefix: &Prefix| allows.get(prefix).is_some_and(|row| row.until > now);
    let runtime = allows.iter().filter(|(prefix, _)| lasts(prefix));
    let runtime = runtime.map(|(prefix, row)| allow(*prefix, row));
    let configured = state.intent.config.allow.iter();
    let configured = configured.filter(|prefix| !lasts(prefix));
    let configured = configured.map(|prefix| Allow {
        prefix: *prefix,
        until: None,
        since: None,
        reason: None,
        author: None,
        origin: Origin::Config,
    });
    let mut allows: Vec<Allow> = runtime.chain(configured).collect();
    allows.sort_by_key(|allow| allow.prefix);
    allows
}

fn class_views(state: &State) -> Vec<ClassView> {
    let named = state.intent.config.classes.iter();
    let view = |(name, class): (&str, &Class)| ClassView {
        name: name.to_owned(),
        class: class.clone(),
    };
    named.map(view).collect()
}

fn aggregate_lengths(state: &State) -> Vec<String> {
    let policies = IpFamily::ALL.into_iter();
    let policies = policies.flat_map(|family| state.policies.of_prefixes(family));
    let length = |(length, _, named): (u8, _, &Named)| match named.role {
        Role::Prefixes(IpFamily::V6, _) => format!("ipv6/{length}"),
        _ => format!("ipv4/{length}"),
    };
    policies.map(length).collect()
}

/// The policies, the default one first, those of wider prefixes and of the node last.
#[must_use]
pub fn limits(state: &State) -> Vec<PolicyView> {
    let wanted = state.intent.policies();
    wanted
        .into_iter()
        .map(|policy| {
            let runtime = runtime_of(state, &policy.name);
            let manual = runtime.is_some();
            let configured = state.intent.config.policies.get(&policy.name);
            let own = policy.name.parse().ok().filter(|_| manual);
            let detected = is_detected(&policy.name);
            PolicyView {
                prefixes: match configured {
                    Some(policy) => policy.sources.clone(),
                    None if detected => state.intent.limited_under(&policy.name),
                    None => own.into_iter().collect(),
                },
                limits: policy.all_limits().cloned().collect(),
                observe: policy.observe,
                ban: policy.ban,
                applies_to: applies_to(policy.role),
                runtime,
                origin: if detected {
                    Origin::Detected
                } else if manual {
                    Origin::Manual
                } else {
                    Origin::Config
                },
                name: policy.name,
            }
        })
        .collect()
}

/// Who set the limits of a policy at runtime; `None` where nobody did.
pub(in crate::control) fn runtime_of(state: &State, policy: &str) -> Option<RuntimeEntry> {
    let target = match policy {
        DEFAULT => None,
        name => Some(name.parse().ok()?),
    };
    state.intent.limits_of(target).map(runtime)
}

/// The counters, a row for each verdict that was ever given.
///
/// # Errors
///
/// When the kernel's tables cannot be read.
pub fn stats(state: &State) -> Result<Vec<StatsRow>, Refused> {
    let rows = counters(state)?;
    Ok(rows
        .into_iter()
        .map(|(interface, row)| StatsRow {
            interface,
            family: row.family.label().to_owned(),
            action: row.verdict.action().to_owned(),
            reason: row.verdict.reason().to_owned(),
            packets: row.count.packets,
            bytes: row.count.bytes,
        })
        .collect())
}

/// Packets that limits of the node refused, or would have in a dry run.
pub fn refused_by_node(state: &State) -> Result<u64, DatapathError> {
    let rows = counters(state)?.into_iter();
    let is_of_node = |row: &CounterRow| {
        matches!(
            row.verdict,
            Verdict::Drop(DropReason::NodeLimited) | Verdict::Observe(DropReason::NodeLimited)
        )
    };
    let rows = rows.map(|(_, row)| row).filter(is_of_node);
    Ok(rows.map(|row| row.count.packets).sum())
}

fn is_compact(state: &State) -> bool {
    state.enforcer.datapath().table_sets().is_some()
}

fn maps(state: &State, slots: Option<[u64; 2]>) -> Vec<MapStatus> {
    let [v4, v6] = IpFamily::ALL.map(|family| state.enforcer.count(family));
    let entries = |name: &str| match name {
        "COMPACT_V4" => slots.map(|[v4, _]| v4),
        "COMPACT_V6" => slots.map(|[_, v6]| v6),
        "LISTS_V4" => Some(v4),
        "LISTS_V6" => Some(v6),
        "POLICIES" => Some(state.enforcer.held().policies.len() as u64),
        _ => None,
    };
    let maps = state.enforcer.datapath().maps().into_iter();
    maps.map(|map| MapStatus {
        entries: entries(&map.name),
        ..map
    })
    .collect()
}

fn counters(state: &State) -> Result<Vec<(String, CounterRow)>, DatapathError> {
    let slots = state.enforcer.datapath().slots();
    let name = |slot: u32| {
        let found = slots.iter().find(|(own, _)| *own == slot);
        found.map_or_else(String::new, |(_, name)| name.clone())
    };
    let rows = state.enforcer.datapath().counters()?;
    Ok(rows
        .into_iter()
        .map(|row| (name(row.interface), row))
        .collect())
}

/// The source that an address belongs to.
pub(in crate::control) fn source_of(state: &State, address: IpAddr) -> Prefix {
    state.intent.config.source.around(address)
}

impl Controller {
    /// The state of the daemon and its datapath, but for how many slots of a `compact` table are in use.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status_with(None)
    }

    /// The same with these slots of IPv4 and IPv6.
    fn status_with(&self, slots: Option<[u64; 2]>) -> Status {
        let config = &self.state.intent.config;
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: self.started,
            config_files: config
                .files
                .iter()
                .map(|file| file.display().to_string())
                .collect(),
            config_applied: self.reloads.applied,
            config_error: self.reloads.error.clone(),
            observe: config.observe,
            clock: self.state.clock(),
            interfaces: self.links.statuses(),
            maps: maps(&self.state, slots),
            bans: count_bans(&self.state),
            detected_bans: self.state.intent.detected(),
            attacks: self.attacks.views(),
            limited: self.state.intent.limited().len(),
            allows: allows(&self.state).len(),
            lists: self.lists(),
            policies: self.state.policies.of_sources(),
            classes: class_views(&self.state),
            aggregates: aggregate_lengths(&self.state),
            node: self.state.policies.get(NODE).is_some(),
            new_sources: new_sources::new_sources(&self.state),
            crowdsec: self.crowdsec.status(&self.state),
            cluster: self.cluster_status(),
            protected: self.state.protection.prefixes().len(),
            pass_all: self.pass_all.status().cloned(),
            attempt: self.trials.attempt(),
            database: database(&self.state),
            troubles: self.troubles().views(),
        }
    }

    /// Why what holds is not written down, so that a restart may undo it.
    #[must_use]
    pub fn unkept(&self) -> Vec<String> {
        let behind = [
            self.pass_all.behind(),
            self.trials.behind(),
            self.last_good.behind(),
            self.state_trouble(),
        ];
        let files = behind.map(|behind| behind.map(str::to_owned)).into_iter();
        files
            .chain([self.state.unwritten.behind()])
            .flatten()
            .collect()
    }

    /// What the metrics are made of, when the sources were counted.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn snapshot(&self, sources: Sources) -> Result<Snapshot, Refused> {
        Ok(Snapshot {
            status: self.status_with(is_compact(&self.state).then_some(sources.held)),
            counters: counters(&self.state)?,
            totals: self.state.enforcer.datapath().totals()?,
            tally: self.state.enforcer.datapath().tally()?,
            detections: self.detections.clone(),
            attacks: self.attacks.found.clone(),
            limited: self.attacks.limited.clone(),
            sources,
            reloads: self.reloads.clone(),
            reconciliation: self.reconciliation(),
            filling: self.state.filling,
        })
    }
}

/// A ban as it is told.
pub(in crate::control) fn ban(prefix: Prefix, origin: &Origin, row: &BanRow) -> Ban {
    Ban {
        prefix,
        until: term::told(row.until),
        since: row.since,
        reason: row.reason.clone(),
        author: row.author.clone(),
        origin: origin.clone(),
    }
}

/// A runtime allow, as it is told.
pub(in crate::control) fn allow(prefix: Prefix, row: &AllowRow) -> Allow {
    Allow {
        prefix,
        until: term::told(row.until),
        since: Some(row.since),
        reason: row.reason.clone(),
        author: Some(row.author.clone()),
        origin: Origin::Manual,
    }
}

/// What is told of runtime limits.
pub(in crate::control) fn runtime(row: &LimitRow) -> RuntimeEntry {
    RuntimeEntry {
        until: term::told(row.until),
        since: row.since,
        reason: row.reason.clone(),
        author: row.author.clone(),
    }
}

fn applies_to(role: Role) -> AppliesTo {
    match role {
        Role::Sources => AppliesTo::Source,
        Role::Prefixes(..) => AppliesTo::Prefix,
        Role::Node => AppliesTo::Node,
    }
}
