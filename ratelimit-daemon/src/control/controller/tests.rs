//! The controller over a datapath in memory.

mod attacks;
mod bans;
mod busy;
mod carried;
mod clock_changes;
mod cluster;
mod crowdsec;
mod damage;
mod ends;
mod entry_counters;
mod folding;
mod groups;
mod inactive;
mod lists;
mod lockout;
mod lost_database;
mod moved;
mod new_sources;
mod origins;
mod overlay;
mod pass_all;
mod policy_bans;
mod programs;
mod reconciliation;
mod records;
mod retired;
mod room;
mod scans;
mod sliding_logs;
mod steps;
mod tcp_connections;
mod time;
mod trials;
mod unwritten;
mod upstream;
mod used;
mod verbs;
mod verified;
mod watching;
mod wide;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU32,
    ops::{Deref, DerefMut},
    path::Path,
    sync::{Arc, MutexGuard},
    thread,
    time::Duration,
};

use aya::Pod;
use jiff::SignedDuration;
use ratelimit_common::{
    Instant, ListEntry, Policy, Record, Settings,
    generation::{ByGeneration, Generation},
    parse::Tunnels,
};
use ratelimit_core::{
    api::{
        AllowRequest, Ban, BanRequest, Changed, Check, Event, LimitRequest, LimitTarget, Origin,
        PrefixesRequest, Refused, ReloadRequest,
    },
    class::{Catalogue, Match},
    compile::Switched,
    config::{
        AggregateConfig, ClockWish, Interface, Mode, NodeConfig, OnStop, Paths, PolicyConfig,
        Snapshots, SourceConfig, StateStore,
    },
    detection::Rules,
    intent::{Edit, Intent},
    ip_family::IpFamily,
    keys::KeysConfig,
    limit::{Algorithm, LimitSpec, LimitUnit},
    prefix::Prefix,
};
use tempfile::TempDir;

use self::writes::Write;
use super::*;
use crate::{
    clock,
    control::{
        Cause, Sources,
        commands::{CompareOn, ProtectSshPeer, TakeEvents, Tick, replace},
        configuration::candidate::Candidate,
        lists::configured::ConfiguredLists,
        queries,
        reports::rows,
    },
    datapath::{Datapath, EntryByGeneration, Memory, SourceRow, Switches},
    loader::Sizes,
    protected::Protected,
};

#[test]
fn a_ban_is_in_the_datapath_in_the_database_and_in_the_list() {
    let mut lab = Lab::new(config());
    let changed = lab
        .ban(&["192.0.2.1", "198.51.100.0/24"], Some(600.0))
        .unwrap();
    assert_eq!((changed.added, changed.until.is_some()), (2, true));
    assert!(lab.is_banned("192.0.2.1") && lab.is_banned("198.51.100.0/24"));
    let bans = lab.listed_bans();
    assert_eq!(
        bans.iter()
            .map(|ban| ban.prefix.to_string())
            .collect::<Vec<_>>(),
        ["192.0.2.1", "198.51.100.0/24"]
    );
    assert_eq!(
        (bans[0].reason.as_deref(), &*bans[0].author),
        (Some("test"), "root")
    );
    lab.restart();
    for (before, after) in bans.iter().zip(lab.listed_bans()) {
        let moved = before
            .until
            .unwrap()
            .duration_since(after.until.unwrap())
            .abs();
        assert!(
            moved <= SignedDuration::from_millis(1),
            "an end moved by {moved}"
        );
        assert_eq!(
            Ban {
                until: before.until,
                ..after
            },
            *before
        );
    }
}

#[test]
fn a_list_of_bans_that_does_not_fit_changes_nothing() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    let before = lab.entries();
    lab.leave_room(1);
    let refused = lab
        .ban(&["192.0.2.1", "192.0.2.2", "192.0.2.3"], Some(600.0))
        .unwrap_err();
    assert!(
        refused.error.contains("is full: it holds"),
        "{}",
        refused.error
    );
    assert_eq!(lab.entries(), before);
    assert_eq!(lab.listed_bans().len(), 1);
    assert_eq!(lab.listed_bans()[0].until, None);
    lab.make_room();
    lab.restart();
    assert_eq!(lab.listed_bans().len(), 1);
}

#[test]
fn a_ban_that_has_ended_is_forgotten_and_a_longer_one_takes_its_place() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(0.01)).unwrap();
    lab.ban(&["192.0.2.2"], Some(0.01)).unwrap();
    lab.ban(&["192.0.2.2"], Some(600.0)).unwrap();
    thread::sleep(Duration::from_millis(20));
    lab.tick();
    assert_eq!(lab.listed_bans().len(), 1);
    assert!(!lab.is_banned("192.0.2.1") && lab.is_banned("192.0.2.2"));
}

#[test]
fn the_ban_of_a_wide_prefix_reaches_the_entries_inside() {
    let mut lab = Lab::new(config());
    lab.limit(Some("10.1.0.0/16"), 5).unwrap();
    lab.ban(&["10.0.0.0/8"], None).unwrap();
    assert!(lab.is_banned("10.1.0.0/16"));
    let changed = lab.unban(&["10.0.0.0/8", "172.16.0.1"]).unwrap();
    assert_eq!(
        (changed.removed, changed.absent),
        (1, vec![prefix("172.16.0.1")])
    );
    assert!(!lab.is_banned("10.1.0.0/16"));
}

#[test]
fn every_address_is_not_banned_and_an_odd_duration_is_refused() {
    let mut lab = Lab::new(config());
    for (prefixes, seconds) in [
        (["0.0.0.0/0"], None),
        (["192.0.2.1"], Some(-1.0)),
        (["192.0.2.1"], Some(f64::NAN)),
        (["192.0.2.1"], Some(0.0)),
        (["192.0.2.1"], Some(1e30)),
    ] {
        lab.ban(&prefixes, seconds).unwrap_err();
    }
    assert!(lab.listed_bans().is_empty());
}

#[test]
fn an_empty_list_is_not_taken_for_anything() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    let none = || PrefixesRequest {
        prefixes: Vec::new(),
    };
    lab.ban(&[], None).unwrap_err();
    lab.controller.unban(none(), "root").unwrap_err();
    lab.disallow(none(), "root").unwrap_err();
    assert_eq!(lab.listed_bans().len(), 1);
}

#[test]
fn runtime_limits_hold_over_those_of_the_configuration_until_they_are_removed() {
    let mut lab = Lab::new(config());
    let configured = lab.policy_amount("203.0.113.7");
    lab.limit(Some("203.0.113.0/24"), 77).unwrap();
    assert_eq!((configured, lab.policy_amount("203.0.113.7")), (50, 77));
    lab.restart();
    assert_eq!(lab.policy_amount("203.0.113.7"), 77);
    lab.unlimit(Some("203.0.113.0/24")).unwrap();
    assert_eq!(lab.policy_amount("203.0.113.7"), 50);
    lab.unlimit(Some("203.0.113.0/24")).unwrap_err();
}

#[test]
fn the_default_policy_is_changed_by_one_word() {
    let mut lab = Lab::new(config());
    let entries = lab.entries();
    lab.limit(None, 9).unwrap();
    assert_eq!(lab.policy_amount("192.0.2.1"), 9);
    assert_eq!(lab.entries(), entries);
    let origin = queries::limits(&lab.state)
        .into_iter()
        .find(|policy| policy.name == "default")
        .unwrap()
        .origin;
    assert_eq!(origin, Origin::Manual);
}

#[test]
fn a_policy_of_another_customer_keeps_its_index_and_so_its_state() {
    let mut lab = Lab::new(config());
    lab.limit(Some("192.0.2.0/24"), 5).unwrap();
    let before = lab.policy_index("192.0.2.1");
    lab.limit(Some("198.51.100.0/24"), 6).unwrap();
    lab.limit(None, 1000).unwrap();
    assert_eq!(lab.policy_index("192.0.2.1"), before);
}

#[test]
fn a_prefix_that_the_configuration_allows_is_not_taken_off_by_hand() {
    let mut lab = Lab::new(config());
    let request = PrefixesRequest {
        prefixes: vec![prefix("192.0.2.10")],
    };
    let refused = lab.disallow(request, "root").unwrap_err();
    assert!(refused.error.contains("configuration"), "{}", refused.error);
}

#[test]
fn check_tells_the_rule_that_decides() {
    let mut lab = Lab::new(config());
    lab.ban(&["203.0.0.0/16"], Some(600.0)).unwrap();
    lab.check(
        "203.0.113.1",
        "drop",
        "banned",
        Some("203.0.0.0/16"),
        "partner",
    );
    lab.check(
        "192.0.2.10",
        "pass",
        "allowed",
        Some("192.0.2.10"),
        "default",
    );
    lab.check("8.8.8.8", "pass", "conforming", None, "default");
    lab.check("2001:db8::1", "pass", "conforming", None, "default");
}

impl Controller {
    /// Puts another configuration in force with the lists that it names, as a reload does.
    fn replace_checked(&mut self, config: Config) -> Result<Vec<String>, Refused> {
        let lists = ConfiguredLists::read(&config)?;
        let texts = self.feeds.trials.texts().to_vec();
        let next = self.feeds.trials.reload(
            Candidate {
                texts,
                config,
                lists,
                warnings: Vec::new(),
            },
            ReloadRequest {
                force: true,
                ..ReloadRequest::default()
            },
        )?;
        replace(self, next, true)
    }

    /// Replaces only the configuration, without its consequences.
    fn replace_config(&mut self, config: Config) -> anyhow::Result<()> {
        let edit = Edit::Config(Box::new(config));
        let answer = self.state.apply([edit], Cause::Origin);
        self.follow_config();
        answer
            .map(drop)
            .map_err(|refused| anyhow::anyhow!(refused.error))
    }
}

/// A query that takes until the test ends it.
fn waits(held: std::sync::mpsc::Receiver<()>) -> impl FnOnce(&Controller) + Send {
    move |_| held.recv().unwrap()
}

/// A controller, and the tables that it fills.
struct Lab {
    controller: Controller,
    memory: Arc<Memory>,
    config: Config,
    directory: TempDir,
    protected: Protected,
}

impl Deref for Lab {
    type Target = Controller;

    fn deref(&self) -> &Controller {
        &self.controller
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Controller {
        &mut self.controller
    }
}

impl Lab {
    fn new(config: Config) -> Self {
        Self::protecting(config, Protected::default())
    }

    fn protecting(config: Config, protected: Protected) -> Self {
        let memory = Memory::new(&config.source, None).unwrap();
        Self::over(memory, tempfile::tempdir().unwrap(), config, protected)
    }

    /// Over a `compact` table of so many sets, if any.
    fn with_sets(config: Config, table_sets: Option<u32>) -> Self {
        let memory = Memory::new(&config.source, table_sets).unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self::over(memory, directory, config, Protected::default())
    }

    fn over(memory: Arc<Memory>, directory: TempDir, config: Config, protected: Protected) -> Self {
        Self {
            controller: controller(&config, &memory, &directory, &protected),
            memory,
            config,
            directory,
            protected,
        }
    }

    /// A new daemon over the same tables and database.
    fn restart(&mut self) {
        let entries = self.entries();
        self.start_again();
        assert_eq!(
            self.entries(),
            entries,
            "a restart changes nothing in the datapath"
        );
    }

    /// The same where policies that are the same may change places.
    fn start_again(&mut self) {
        let Self {
            config,
            memory,
            directory,
            protected,
            ..
        } = self;
        self.controller = controller(config, memory, directory, protected);
    }

    fn ban(&mut self, prefixes: &[&str], seconds: Option<f64>) -> Result<Changed, Refused> {
        let prefixes = prefixes.iter().map(|text| prefix(text)).collect();
        let request = BanRequest {
            prefixes,
            seconds,
            forever: seconds.is_none(),
            reason: Some("test".into()),
            ..BanRequest::default()
        };
        self.controller.ban(request, "root")
    }

    fn unban(&mut self, prefixes: &[&str]) -> Result<Changed, Refused> {
        let prefixes = prefixes.iter().map(|text| prefix(text)).collect();
        let request = PrefixesRequest { prefixes };
        self.controller.unban(request, "root")
    }

    fn allow(&mut self, text: &str, seconds: Option<f64>) -> Result<Changed, Refused> {
        let request = AllowRequest {
            prefixes: vec![prefix(text)],
            seconds,
            ..AllowRequest::default()
        };
        self.controller.allow(request, "root")
    }

    /// Puts another configuration in force, as a reload does, and compares with what `rlctl reload
    /// --dry-run` says before.
    fn replace(&mut self, config: Config) -> Result<Vec<String>, Refused> {
        let paths = self.state.intent.config.paths.clone();
        let config = Config { paths, ..config };
        let announced = self.diff(config.clone());
        let changes = self.replace_checked(config)?;
        assert_eq!(announced.unwrap(), changes);
        Ok(changes)
    }

    fn diff(&mut self, config: Config) -> Result<Vec<String>, Refused> {
        let candidate = Candidate {
            texts: Vec::new(),
            lists: ConfiguredLists::read(&config)?,
            config,
            warnings: Vec::new(),
        };
        let diff = queries::Diff {
            candidate: Ok(candidate),
            is_reload: true,
        };
        Ok(self.controller.run(diff)?.changes)
    }

    /// The tables.
    fn tables(&self) -> &Datapath {
        self.state.enforcer.datapath()
    }

    /// The tables, to be changed behind the controller's back.
    fn tables_mut(&mut self) -> &mut Datapath {
        self.state.enforcer.datapath_mut()
    }

    fn switches(&self) -> MutexGuard<'_, Switches> {
        self.memory.switches()
    }

    /// Creates the tables again with other sizes.
    fn resize(&mut self, change: impl FnOnce(&mut Sizes)) {
        let mut plan = self.memory.plan();
        change(&mut plan.sizes);
        self.tables_mut().renew(&plan).unwrap();
    }

    /// Leaves room for so many entries of each family.
    fn leave_room(&self, entries: usize) {
        let held = self.held();
        for (family, map) in IpFamily::ALL.into_iter().zip(["LISTS_V4", "LISTS_V6"]) {
            let own = held
                .keys()
                .filter(|it| IpFamily::of(it.address()) == family);
            let room = own.count() + entries;
            self.switches().room.insert(map, room);
        }
    }

    fn make_room(&self) {
        self.switches().room.clear();
    }

    /// Has changes of the settings fail, or not.
    fn refuse_settings(&self, refuses: bool) {
        let left = &mut self.switches().writes_left;
        if refuses {
            left.insert("SETTINGS", 0);
        } else {
            left.clear();
        }
    }

    /// The entries, with the value in each generation.
    fn held(&self) -> BTreeMap<Prefix, EntryByGeneration> {
        held(self.tables())
    }

    /// The policies that are not empty.
    fn policies(&self) -> BTreeMap<u32, Policy> {
        self.tables().policies.all().unwrap().into_iter().collect()
    }

    fn settings(&self) -> Settings {
        self.tables().policies.settings().unwrap()
    }

    /// The tables with a value for each generation, as they are in force.
    fn switched(&self) -> Switched {
        let switched = self.tables().switched().unwrap();
        switched.of(self.settings().generation()).clone()
    }

    /// The bans, as they are listed.
    fn listed_bans(&self) -> Vec<Ban> {
        queries::all_bans(&self.controller)
    }

    fn events(&self) -> Vec<Arc<Event>> {
        self.state.reports.journal.kept()
    }

    fn edit(&mut self, edits: &[Edit]) {
        self.state.apply(edits, Cause::Origin).unwrap();
    }

    fn limit(&mut self, target: Option<&str>, amount: u64) -> Result<Changed, Refused> {
        self.set_limit(target, limit(amount))
    }

    fn set_limit(&mut self, target: Option<&str>, limit: LimitSpec) -> Result<Changed, Refused> {
        let request = LimitRequest {
            prefix: target.map(prefix),
            limits: vec![limit],
            ..LimitRequest::default()
        };
        self.set_limits(request, "root")
    }

    fn unlimit(&mut self, target: Option<&str>) -> Result<Changed, Refused> {
        let target = LimitTarget {
            destination: None,
            prefix: target.map(prefix),
        };
        self.remove_limits(target, "root")
    }

    fn check(&self, address: &str, action: &str, reason: &str, rule: Option<&str>, policy: &str) {
        let check = self.checked(address);
        let found = (
            check.action.as_str(),
            check.reason.as_str(),
            check.rule,
            check.policy.as_str(),
        );
        assert_eq!(
            found,
            (action, reason, rule.map(prefix), policy),
            "{address}"
        );
    }

    fn checked(&self, address: &str) -> Check {
        let address: IpAddr = address.parse().unwrap();
        self.controller.check(address).unwrap()
    }

    fn entries(&self) -> BTreeMap<Prefix, ListEntry> {
        let generation = self.settings().generation();
        let settled = self.held().into_iter().map(|(prefix, entry)| {
            assert!(entry.is_settled(), "{prefix}: {entry:?}");
            (prefix, *entry.of(generation))
        });
        settled.collect()
    }

    fn is_banned(&self, text: &str) -> bool {
        let entry = self
            .entries()
            .get(&prefix(text))
            .copied()
            .unwrap_or_default();
        entry.is_banned(Instant::from_nanos(clock::now().as_nanos()))
    }

    /// The time until which the datapath drops packets of a prefix, with the last bit set as in
    /// manual ends.
    fn until(&self, text: &str) -> Option<Instant> {
        let until = self.entries().get(&prefix(text))?.banned_until()?;
        Some(Instant::from_nanos(until.as_nanos() | 1))
    }

    /// The index of the policy of an address, as the datapath finds it.
    fn policy_index(&self, address: &str) -> u32 {
        let address = Prefix::from(address.parse::<IpAddr>().unwrap());
        let (held, settings) = (self.held(), self.settings());
        let around = held.iter().filter(|(prefix, _)| prefix.covers(address));
        let longest = around.max_by_key(|(prefix, _)| prefix.len());
        longest
            .and_then(|(_, entry)| entry.of(settings.generation()).policy())
            .unwrap_or(settings.default_policy())
    }

    fn policy_amount(&self, address: &str) -> u64 {
        let policy = self.policy_of(address);
        policy.limit(0).unwrap().algorithm().capacity()
    }

    /// The policy of an address, as the datapath finds it.
    fn policy_of(&self, address: &str) -> Policy {
        let index = self.policy_index(address);
        self.tables().policies.get(index).unwrap()
    }
}

/// Writes the record of a source, as its packets do.
fn put_record(lab: &Lab, source: IpAddr, scope: u32, record: Record) {
    let row = SourceRow {
        source,
        scope,
        record,
    };
    let sources = &lab.tables().sources;
    sources.put_records(IpFamily::of(source), &[row]).unwrap();
}

/// Adds a value to a map of either family, as the program does.
fn insert<V: Pod>(memory: &Memory, maps: [&'static str; 2], source: IpAddr, value: V) {
    let maps = memory.maps().by_source(maps).unwrap();
    match source {
        IpAddr::V4(address) => maps.v4.set(address.into(), value),
        IpAddr::V6(address) => maps.v6.set(address.into(), value),
    }
    .unwrap();
}

/// Replaces the element of an array.
fn set<V: Pod>(memory: &Memory, map: &'static str, index: u32, value: V) {
    let map = memory.maps().array(map).unwrap();
    map.set(index, value).unwrap();
}

fn held(tables: &Datapath) -> BTreeMap<Prefix, EntryByGeneration> {
    tables.lists.all().unwrap().into_iter().collect()
}

fn controller(
    config: &Config,
    memory: &Arc<Memory>,
    state: &TempDir,
    protected: &Protected,
) -> Controller {
    let mut controller = without_lists(config, memory, state, protected);
    controller.take_lists();
    controller
}

/// The same before it attaches anything and, if nothing runs yet, before it reads a file.
fn without_lists(
    config: &Config,
    memory: &Arc<Memory>,
    state: &TempDir,
    protected: &Protected,
) -> Controller {
    let store = Store::open(state.path()).unwrap();
    let mut config = config.clone();
    // Not the directory of a daemon that may run here.
    if [Path::new(""), &Paths::default().state].contains(&config.paths.state.as_path()) {
        state.path().clone_into(&mut config.paths.state);
    }
    let datapath = memory.open().unwrap();
    Controller::new(config, store, datapath, protected.clone()).unwrap()
}

fn config() -> Config {
    let partner = PolicyConfig {
        sources: vec![prefix("203.0.113.0/24")],
        limits: vec![limit(50)],
        ..PolicyConfig::default()
    };
    Config {
        files: Vec::new(),
        interfaces: vec![Interface {
            name: "eth0".into(),
            mode: Mode::Auto,
            jumbo: false,
            next: None,
            policy: None,
            node: None,
            observe: false,
        }],
        source: SourceConfig {
            store: StateStore::Lru,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            capacity: 1024,
            logs: 64,
            tunnels: Tunnels::NONE,
        },
        new_sources: None,
        challenge: None,
        default_policy: PolicyConfig {
            limits: vec![limit(10)],
            ..PolicyConfig::default()
        },
        policies: [("partner".to_owned(), partner)].into(),
        classes: Catalogue::default(),
        aggregate: AggregateConfig::default(),
        destinations: BTreeMap::new(),
        node: NodeConfig::default(),
        bans_per_minute: NonZeroU32::new(1000).unwrap(),
        forgeable_per_minute: NonZeroU32::new(1000).unwrap(),
        attacks: Rules::new(),
        report: true,
        protected: Vec::new(),
        allow: vec![prefix("192.0.2.10")],
        lists: BTreeMap::new(),
        observe: false,
        clock: ClockWish::Auto,
        on_stop: OnStop::Keep,
        paths: Paths {
            pins: "".into(),
            state: "".into(),
            runtime: "".into(),
        },
        dashboard: false,
        dashboard_token: None,
        ban_for: Some(Duration::from_hours(4)),
        fold: None,
        history: None,
        snapshot: Snapshots::default(),
        watched: vec![],
        metrics: None,
        crowdsec: None,
        cluster: None,
        upstream: None,
        keys: KeysConfig::default(),
    }
}

fn ban(text: &str, origin: Origin, until: Instant) -> Edit {
    let row = rows::entry(until, None::<&str>, "test");
    Edit::Ban(prefix(text), origin, Some(row))
}

fn limit(amount: u64) -> LimitSpec {
    limit_by(amount, 1, Algorithm::FixedWindow)
}

/// A limit of packets in four minutes.
fn slow(amount: u64, algorithm: Algorithm) -> LimitSpec {
    limit_by(amount, 240, algorithm)
}

/// A limit of packets in so many seconds.
fn limit_by(amount: u64, seconds: u64, algorithm: Algorithm) -> LimitSpec {
    let window = Duration::from_secs(seconds);
    LimitSpec::new(amount, LimitUnit::Packets, window, algorithm).unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}
