//! A datapath in memory, for tests of the control plane.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::AtomicU64,
        mpsc::{Receiver, Sender},
    },
};

use ratelimit_common::{
    Address, BanBudgets, ClassSet, Evidence, Family, Instant, Ipv4, Limit, PassReason, Policy,
    PolicyBan, Record, Refusals, Settings, Verdict,
    aggregate::Aggregates,
    algorithm::sliding_log::TIMES_MAX,
    ban_budget::SLOTS,
    challenge::{self, Verified},
    compact::Region,
    features::Features,
    generation::ByGeneration,
    layout::Counter,
    lease::{Demand, Lease},
    limit::LIMITS_MAX,
    new_sources::Taken,
    policy_ban::{BanResult, Tally},
    source::LogKey,
    source_filter::Filter,
};
use ratelimit_core::{
    api::MapStatus, atomic_ring::AtomicRing, class_tables::ClassTables, compile::Switched,
    config::Interface, ip_family::IpFamily, log_size::LogSize, prefix::Prefix,
};
use ratelimit_interface::{InterfaceState, XdpMode};

use super::{
    Attachments, ChallengeTables, CounterRow, Datapath, DatapathError, EntryByGeneration,
    EntryCounterTables, LeaseTables, ListTables, LogRow, PolicyBanTables, PolicyTables, Result,
    ScanPosition, SlotRow, SourceRow, SourceTables, Totals, UsageTables,
};
use crate::{
    links::{Running, Sight},
    loader::MapPlan,
};

/// The tables, open for inspection.
#[expect(missing_docs, reason = "most are named after their table")]
#[derive(Debug, Default)]
pub struct Memory {
    pub entries: BTreeMap<Prefix, EntryByGeneration>,
    /// The number of entries from which on additions fail; 0 for no limit.
    pub entries_max: usize,
    /// The reported capacity of a family; 0 for no limit.
    pub capacity: u32,
    /// Whether entries are not counted, as in kernels before 6.4.
    pub does_not_count: bool,
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// The non-empty policies.
    pub policies: BTreeMap<u32, Policy>,
    pub settings: Settings,
    pub classes: ClassTables,
    pub switched: ByGeneration<Switched>,
    /// The state of policies of the node and of destinations, by slot.
    pub totals: BTreeMap<u32, Record>,
    /// The words of sliding logs, by source, scope and limit.
    pub logs: BTreeMap<(IpAddr, u32, u32), Vec<u64>>,
    /// The size of the sliding logs; `None` for no limit.
    pub log_size: Option<LogSize>,
    /// The words of a record; `None` for as many as a policy can have limits.
    pub record_words: Option<u32>,
    /// The sets of a `compact` table; `None` for another store.
    pub table_sets: Option<u32>,
    /// The nonzero words of the prefix-length filters.
    pub prefix_filters: BTreeMap<(IpFamily, u32), u64>,
    pub records: BTreeMap<(IpAddr, u32), Record>,
    pub refusals: BTreeMap<IpAddr, Refusals>,
    /// Refusals by limits that many sources share, by scope.
    pub shared_refusals: BTreeMap<(IpAddr, u32), Refusals>,
    /// Sources banned by policies.
    pub policy_bans: BTreeMap<IpAddr, PolicyBan>,
    /// A source that a policy bans right after the bans were read.
    pub policy_ban_next: Option<(IpAddr, PolicyBan)>,
    /// The end of pass-all.
    pub pass_all_until: Instant,
    /// The budgets for bans by policies.
    pub ban_budgets: BanBudgets,
    /// The bans of a minute.
    pub ban_rings: [[AtomicU64; SLOTS as usize]; Evidence::COUNT],
    /// Whether the program was attached.
    pub runs: bool,
    /// The features of the program.
    pub features: Features,
    /// The features for which running programs were replaced, in order.
    pub specialised: Vec<Features>,
    /// Missing interfaces; the program runs on all others.
    pub missing: Vec<String>,
    /// The used budgets of the challenge.
    pub challenge_taken: challenge::Taken,
    /// The number of challenges that were not sent because the budget was spent.
    pub challenge_unanswered: u64,
    /// The end of the pause of the challenge.
    pub challenge_paused_until: Instant,
    /// The number of completed challenges.
    pub proofs: u64,
    /// Verified sources, with the end of their verification.
    pub verified: BTreeMap<IpAddr, Verified>,
    /// Keys with a lease, by family.
    pub leased_filters: [Filter; 2],
    pub leases: HashMap<LogKey, Lease>,
    /// The demand for limits that nodes share.
    pub demands: Vec<(LogKey, Demand)>,
    /// The results of bans by policies.
    pub tally: Tally,
    /// Whether changes of the settings fail.
    pub settings_refused: bool,
    /// The number of changes of the settings that succeed before they fail.
    pub settings_left: Option<u32>,
    /// Counts of matched packets, by slot.
    pub entry_counters: BTreeMap<u16, Counter>,
    /// The owners of the slots.
    pub counter_owners: BTreeMap<u16, u64>,
    /// The packets that limits judged.
    pub judged: Counter,
    /// The gate at which the next scan of sources pauses.
    pub gate: Option<Gate>,
}

impl Memory {
    /// Returns the wider prefixes of a family with limits, in the current generation.
    pub fn aggregates_in_force(&self, family: IpFamily) -> Aggregates {
        let in_force = self.switched.of(self.settings.generation());
        in_force.aggregates[family as usize]
    }
}

/// A point where a scan pauses until it may continue.
#[derive(Debug)]
pub struct Gate {
    /// Signals that the scan has arrived.
    pub reached: Sender<()>,
    /// Receives the permission to continue, or is closed.
    pub open: Receiver<()>,
}

/// Logs visited at once.
const LOGS_AT_ONCE: usize = 100;

/// A write to the tables.
#[expect(missing_docs, reason = "most are named after their table")]
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    Policy(u32, Box<Policy>),
    /// An entry, or its removal.
    Entry(Prefix, Option<EntryByGeneration>),
    Classes(Box<ClassTables>),
    Switched(Box<ByGeneration<Switched>>),
    /// Clears the state in a slot of the node or of a destination.
    Total(u32),
    /// Clears a region of a `compact` table.
    Region(Region),
    /// Copies a region to another one, which was empty.
    CopiedRegion(Region, Region),
    Settings(Settings),
    /// The program is attached to an interface.
    Attached,
}

/// The tables, shared with the test.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Memory>>);

impl From<&Arc<Mutex<Memory>>> for Shared {
    fn from(memory: &Arc<Mutex<Memory>>) -> Self {
        Self(Arc::clone(memory))
    }
}

impl Memory {
    /// Panics unless a running program has the features that the tables are about to use.
    fn require(&self, features: Features) {
        assert!(
            !self.runs || self.features.covers(features),
            "{features:?} of {:?}",
            self.features
        );
    }
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_gate(&self) {
        let gate = self.memory().gate.take();
        if let Some(gate) = gate {
            let _ = gate.reached.send(());
            let _ = gate.open.recv();
        }
    }
}

impl ListTables for Shared {
    fn set_entries(&mut self, entries: &[(Prefix, EntryByGeneration)]) -> Result<()> {
        let mut memory = self.memory();
        for (prefix, entry) in entries {
            let full = memory.entries_max != 0 && memory.entries.len() >= memory.entries_max;
            if full && !memory.entries.contains_key(prefix) {
                let capacity = u32::try_from(memory.entries_max).unwrap_or(u32::MAX);
                return Err(DatapathError::Full {
                    map: "LISTS_V4",
                    capacity,
                });
            }
            memory.entries.insert(*prefix, *entry);
            memory.writes.push(Write::Entry(*prefix, Some(*entry)));
        }
        Ok(())
    }

    fn remove_entries(&mut self, prefixes: &[Prefix]) -> Result<()> {
        let mut memory = self.memory();
        for prefix in prefixes {
            memory.entries.remove(prefix);
            memory.writes.push(Write::Entry(*prefix, None));
        }
        Ok(())
    }

    fn filter_word(&self, family: IpFamily, index: u32) -> u64 {
        let word = self.memory().prefix_filters.get(&(family, index)).copied();
        word.unwrap_or_default()
    }

    fn set_filter_word(&mut self, family: IpFamily, index: u32, word: u64) {
        let prefix_filters = &mut self.memory().prefix_filters;
        if word == 0 {
            prefix_filters.remove(&(family, index));
        } else {
            prefix_filters.insert((family, index), word);
        }
    }

    fn release(&mut self) {}

    fn list_capacity(&self, _family: IpFamily) -> u32 {
        match self.memory().capacity {
            0 => u32::MAX,
            capacity => capacity,
        }
    }

    fn entry(&self, prefix: Prefix) -> Result<Option<EntryByGeneration>> {
        Ok(self.memory().entries.get(&prefix).copied())
    }

    fn entries(&self) -> Result<Vec<(Prefix, EntryByGeneration)>> {
        Ok(self
            .memory()
            .entries
            .iter()
            .map(|(prefix, entry)| (*prefix, *entry))
            .collect())
    }

    fn some_entries(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(Prefix, EntryByGeneration),
    ) -> Result<ScanPosition> {
        let first = place.bytes().and_then(Prefix::from_bytes);
        let mut own = self.memory().entries.clone();
        own.retain(|prefix, _| IpFamily::of(prefix.address()) == family && Some(*prefix) >= first);
        let mut own = own.into_iter();
        for (prefix, entry) in own.by_ref().take(count) {
            visit(prefix, entry);
        }
        let next = own.next().map(|(prefix, _)| prefix.to_bytes().to_vec());
        Ok(next.map_or_else(ScanPosition::default, ScanPosition::at))
    }

    fn count_entries(&self, family: IpFamily) -> Option<u64> {
        let memory = self.memory();
        let own = memory.entries.keys();
        let own = own.filter(|prefix| IpFamily::of(prefix.address()) == family);
        (!memory.does_not_count).then(|| own.count() as u64)
    }
}

impl PolicyTables for Shared {
    fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<()> {
        let mut memory = self.memory();
        memory.writes.push(Write::Policy(index, Box::new(*policy)));
        if *policy == Policy::default() {
            memory.policies.remove(&index);
        } else {
            memory.require(Features::of_policy(policy));
            memory.policies.insert(index, *policy);
        }
        Ok(())
    }

    fn set_settings(&mut self, settings: Settings) -> Result<()> {
        let mut memory = self.memory();
        if memory.settings_refused || memory.settings_left == Some(0) {
            return Err(DatapathError::Full {
                map: "SETTINGS",
                capacity: 1,
            });
        }
        memory.settings_left = memory.settings_left.map(|left| left - 1);
        memory.require(Features::of_settings(settings));
        memory.settings = settings;
        memory.writes.push(Write::Settings(settings));
        Ok(())
    }

    fn settings(&self) -> Result<Settings> {
        Ok(self.memory().settings)
    }

    fn set_classes(&mut self, classes: &ClassTables) -> Result<()> {
        let mut memory = self.memory();
        memory
            .writes
            .push(Write::Classes(Box::new(classes.clone())));
        memory.classes = classes.clone();
        Ok(())
    }

    fn classes(&self) -> Result<ClassTables> {
        Ok(self.memory().classes.clone())
    }

    fn some_classes(&self, indices: Range<u32>) -> Result<Vec<ClassSet>> {
        let memory = self.memory();
        let classes = memory.classes.entries().iter();
        let classes = classes.skip(indices.start as usize).take(indices.len());
        Ok(classes.copied().collect())
    }

    fn set_switched(&mut self, switched: &ByGeneration<Switched>) -> Result<()> {
        let mut memory = self.memory();
        let write = Write::Switched(Box::new(switched.clone()));
        memory.writes.push(write);
        memory.switched.clone_from(switched);
        Ok(())
    }

    fn switched(&self) -> Result<ByGeneration<Switched>> {
        Ok(self.memory().switched.clone())
    }

    fn wait_for_packets(&self) {}

    fn set_total(&mut self, slot: u32, record: Record) -> Result<()> {
        let mut memory = self.memory();
        memory.writes.push(Write::Total(slot));
        memory.totals.remove(&slot);
        if record != Record::default() {
            memory.totals.insert(slot, record);
        }
        Ok(())
    }

    fn log_size(&self) -> LogSize {
        self.memory().log_size.unwrap_or(LogSize {
            times: TIMES_MAX,
            logs: u32::MAX,
        })
    }

    fn record_words(&self) -> u32 {
        self.memory()
            .record_words
            .unwrap_or(u32::try_from(LIMITS_MAX).unwrap_or(u32::MAX))
    }

    fn table_sets(&self) -> Option<u32> {
        self.memory().table_sets
    }

    fn clear_region(&mut self, region: Region) -> Result<()> {
        if region.sets() > 0 {
            self.memory().writes.push(Write::Region(region));
        }
        Ok(())
    }

    fn copy_region(&mut self, from: Region, to: &Limit) -> Result<()> {
        let write = Write::CopiedRegion(from, to.region());
        self.memory().writes.push(write);
        Ok(())
    }

    fn policy(&self, index: u32) -> Result<Policy> {
        let policy = self.memory().policies.get(&index).copied();
        Ok(policy.unwrap_or_default())
    }

    fn some_policies(&self, indices: Range<u32>) -> Result<Vec<(u32, Policy)>> {
        let memory = self.memory();
        let policies = memory.policies.range(indices);
        Ok(policies.map(|(index, policy)| (*index, *policy)).collect())
    }

    /// No packets arrive here.
    fn new_sources_taken(&self) -> Result<Taken> {
        Ok(Taken::default())
    }

    fn set_pass_all_until(&mut self, until: Instant) -> Result<()> {
        self.memory().pass_all_until = until;
        Ok(())
    }

    fn pass_all_until(&self) -> Result<Instant> {
        Ok(self.memory().pass_all_until)
    }
}

impl LeaseTables for Shared {
    fn set_leased_filters(&mut self, filters: &[Filter; 2]) -> Result<()> {
        self.memory().leased_filters = *filters;
        Ok(())
    }

    fn set_leases(&mut self, leases: &[(LogKey, Lease)]) -> Result<()> {
        self.memory().leases.extend(leases.iter().copied());
        Ok(())
    }

    fn remove_leases(&mut self, keys: &[LogKey]) -> Result<()> {
        let mut memory = self.memory();
        memory.leases.retain(|key, _| !keys.contains(key));
        Ok(())
    }

    fn leases(&self) -> Result<Vec<(LogKey, Lease)>> {
        Ok(self.memory().leases.clone().into_iter().collect())
    }

    fn demands(&self) -> Result<Vec<(LogKey, Demand)>> {
        Ok(self.memory().demands.clone())
    }
}

impl ChallengeTables for Shared {
    fn challenge_taken(&self) -> Result<challenge::Taken> {
        Ok(self.memory().challenge_taken)
    }

    fn pause_challenge(&mut self, until: Instant) -> Result<()> {
        self.memory().challenge_paused_until = until;
        Ok(())
    }

    fn challenge_paused_until(&self) -> Result<Instant> {
        Ok(self.memory().challenge_paused_until)
    }

    fn challenge_unanswered(&self) -> Result<u64> {
        Ok(self.memory().challenge_unanswered)
    }

    fn verified(&self, source: IpAddr) -> Result<Option<Verified>> {
        Ok(self.memory().verified.get(&source).copied())
    }

    fn for_each_verified(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<()> {
        let memory = self.memory();
        for (source, verified) in &memory.verified {
            visit(*source, *verified);
        }
        Ok(())
    }
}

impl EntryCounterTables for Shared {
    fn counter_owners(&self) -> Result<BTreeMap<u16, u64>> {
        let mut owners = self.memory().counter_owners.clone();
        owners.retain(|_, owner| *owner != 0);
        Ok(owners)
    }

    fn set_counter_owner(&mut self, slot: u16, owner: u64) -> Result<()> {
        self.memory().counter_owners.insert(slot, owner);
        Ok(())
    }

    fn entry_counters(&self, slots: Range<u32>) -> Result<Vec<Counter>> {
        let memory = self.memory();
        let slots = slots.map(|slot| u16::try_from(slot).unwrap_or_default());
        let counters = slots.map(|slot| memory.entry_counters.get(&slot).copied());
        Ok(counters.map(Option::unwrap_or_default).collect())
    }

    fn judged(&self) -> Result<Counter> {
        Ok(self.memory().judged)
    }

    fn set_entry_counter(&mut self, slot: u16, count: Counter) -> Result<()> {
        self.memory().entry_counters.insert(slot, count);
        Ok(())
    }
}

impl PolicyBanTables for Shared {
    fn strikes(&self, _: IpAddr) -> Result<u64> {
        Ok(0)
    }

    fn set_ban_budgets(&mut self, limit: BanBudgets) -> Result<()> {
        self.memory().ban_budgets = limit;
        Ok(())
    }

    fn ban_budgets(&self) -> Result<BanBudgets> {
        Ok(self.memory().ban_budgets)
    }

    fn take_ban(&self, budgets: BanBudgets, evidence: Evidence, now: Instant) -> Result<bool> {
        let memory = self.memory();
        let ring = AtomicRing(&memory.ban_rings[evidence as usize]);
        Ok(budgets.of(evidence).take(&ring, now))
    }

    fn policy_ban(&self, source: IpAddr) -> Result<Option<PolicyBan>> {
        Ok(self.memory().policy_bans.get(&source).copied())
    }

    fn policy_bans(&self) -> Result<Vec<(IpAddr, PolicyBan)>> {
        let mut memory = self.memory();
        let all = memory.policy_bans.iter();
        let all = all.map(|(source, ban)| (*source, *ban)).collect();
        if let Some((source, ban)) = memory.policy_ban_next.take() {
            memory.policy_bans.insert(source, ban);
            memory.tally.results[BanResult::Banned as usize] += 1;
        }
        Ok(all)
    }

    fn forget_policy_bans(&mut self, taken: &[(IpAddr, PolicyBan)]) -> Result<()> {
        let bans = &mut self.memory().policy_bans;
        for (source, ban) in taken {
            if bans.get(source).is_some_and(|found| !found.follows(ban)) {
                bans.remove(source);
            }
        }
        Ok(())
    }

    fn tally(&self) -> Result<Tally> {
        Ok(self.memory().tally)
    }
}

impl Attachments for Shared {
    fn slots(&self) -> Vec<(u32, String)> {
        Vec::new()
    }

    fn runs(&self) -> bool {
        self.memory().runs
    }

    fn look(&self, interface: &str) -> anyhow::Result<Sight> {
        let memory = self.memory();
        if memory.missing.iter().any(|name| name == interface) {
            return Ok(Sight::default());
        }
        let state = InterfaceState {
            index: 1,
            name: interface.to_owned(),
            program: Some((XdpMode::Native, 1)),
            ..InterfaceState::default()
        };
        Ok(Sight {
            there: Some(state.clone()),
            program: Some(Running {
                on: Some(state),
                takes_long_frames: true,
                next: None,
                entry: None,
                is_behind: false,
            }),
        })
    }

    fn prepare(&mut self, _interface: &Interface) -> anyhow::Result<()> {
        Ok(())
    }

    fn attach(&mut self, _interface: &Interface) -> anyhow::Result<Option<String>> {
        let mut memory = self.memory();
        memory.runs = true;
        memory.writes.push(Write::Attached);
        Ok(None)
    }

    fn features(&self) -> Features {
        self.memory().features
    }

    fn specialise(&mut self, features: Features) -> anyhow::Result<()> {
        let mut memory = self.memory();
        memory.features = features;
        memory.specialised.push(features);
        Ok(())
    }

    fn set_features(&mut self, features: Features) {
        self.memory().features = features;
    }

    fn take_off(&mut self, _interface: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn keep_only(&mut self, _interfaces: &[Interface]) -> anyhow::Result<()> {
        Ok(())
    }

    fn keep_pinned(&mut self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn stale_next(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn follow(&mut self, _: &[Interface]) -> anyhow::Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }

    fn detach(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

impl Datapath for Shared {
    fn sources(&self) -> Arc<dyn SourceTables> {
        Arc::new(self.clone())
    }

    fn counters(&self) -> Result<Vec<CounterRow>> {
        let proofs = CounterRow {
            interface: 0,
            family: Family::Ipv4,
            verdict: Verdict::Pass(PassReason::Verified),
            count: Counter {
                packets: self.memory().proofs,
                bytes: 0,
            },
        };
        Ok(vec![proofs])
    }

    fn totals(&self) -> Result<Totals> {
        Ok(Totals::default())
    }

    fn maps(&self) -> Vec<MapStatus> {
        Vec::new()
    }

    fn renew(&mut self, plan: &MapPlan) -> anyhow::Result<()> {
        let mut memory = self.memory();
        if memory.log_size.is_some() {
            memory.log_size = Some(plan.sizes.logs);
        }
        if memory.record_words.is_some() {
            memory.record_words = Some(plan.sizes.words);
        }
        memory.table_sets = plan.sizes.sets;
        Ok(())
    }

    fn lengthen(&mut self, _: &[Interface]) -> anyhow::Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

impl UsageTables for Shared {
    fn put_records(&mut self, _: IpFamily, rows: &[SourceRow]) -> Result<()> {
        let rows = rows.iter().map(|row| ((row.source, row.scope), row.record));
        self.memory().records.extend(rows);
        Ok(())
    }

    fn put_slots(&mut self, _: &Limit, _: IpFamily, _: &[(IpAddr, u64)]) -> Result<()> {
        Ok(())
    }

    fn put_logs(&mut self, rows: &[LogRow]) -> Result<()> {
        let rows = rows.iter().map(|row| {
            let words = [&[0], &row.words[..]].concat();
            ((row.source, row.scope, row.limit), words)
        });
        self.memory().logs.extend(rows);
        Ok(())
    }
}

impl SourceTables for Shared {
    fn is_compact(&self) -> bool {
        self.memory().table_sets.is_some()
    }

    fn inserted(&self) -> Result<[u64; 2]> {
        Ok(Totals::default().inserted)
    }

    fn count_others(&self) -> Result<Vec<(&'static str, u64)>> {
        Ok(vec![])
    }

    fn total(&self, slot: u32) -> Result<Record> {
        let record = self.memory().totals.get(&slot).copied();
        Ok(record.unwrap_or_default())
    }

    fn some_slots(&self, _: Region, _: Range<u32>, _: &mut dyn FnMut(SlotRow)) -> Result<()> {
        self.pass_gate();
        Ok(())
    }

    fn source_of_tag(&self, family: IpFamily, tag: u64) -> IpAddr {
        match family {
            IpFamily::V4 => Ipv4Addr::from(Ipv4::from_key(tag)).into(),
            IpFamily::V6 => Ipv6Addr::from_bits(u128::from(tag) << 64).into(),
        }
    }

    fn log(&self, source: IpAddr, scope: u32, limit: u32) -> Result<Option<Vec<u64>>> {
        Ok(self.memory().logs.get(&(source, scope, limit)).cloned())
    }

    fn record(&self, source: IpAddr, policy: &Policy, _: Instant) -> Result<Option<Record>> {
        let key = (source, policy.scope());
        Ok(self.memory().records.get(&key).copied())
    }

    fn refusals(&self, source: IpAddr) -> Result<Option<Refusals>> {
        Ok(self.memory().refusals.get(&source).copied())
    }

    fn shared_refusals(&self, address: IpAddr, scope: u32) -> Result<Option<Refusals>> {
        let refusals = self
            .memory()
            .shared_refusals
            .get(&(address, scope))
            .copied();
        Ok(Some(refusals.unwrap_or_default()))
    }

    fn for_each_refused(&self, visit: &mut dyn FnMut(IpAddr, Refusals)) -> Result<()> {
        self.memory()
            .refusals
            .iter()
            .for_each(|(source, refusals)| visit(*source, *refusals));
        Ok(())
    }

    fn for_each_source(&self, visit: &mut dyn FnMut(SourceRow)) -> Result<()> {
        self.pass_gate();
        // A copy, because the visitor may access the tables.
        let records = self.memory().records.clone();
        for ((source, scope), record) in records {
            visit(SourceRow {
                source,
                scope,
                record,
            });
        }
        Ok(())
    }

    fn some_sources(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(SourceRow),
    ) -> Result<ScanPosition> {
        self.pass_gate();
        let mut rows = self.memory().records.clone();
        rows.retain(|(source, _), _| IpFamily::of(*source) == family);
        let rows = rows.into_iter().map(|((source, scope), record)| SourceRow {
            source,
            scope,
            record,
        });
        Ok(some(rows, place, count, visit))
    }

    fn some_logs(
        &self,
        place: &ScanPosition,
        visit: &mut dyn FnMut(LogRow),
    ) -> Result<ScanPosition> {
        let logs = self.memory().logs.clone();
        let rows = logs
            .into_iter()
            .map(|((source, scope, limit), words)| LogRow {
                source,
                scope,
                limit,
                words,
            });
        Ok(some(rows, place, LOGS_AT_ONCE, visit))
    }
}

/// Visits some rows from a position, which is the number of rows visited before.
fn some<T>(
    rows: impl Iterator<Item = T>,
    place: &ScanPosition,
    count: usize,
    visit: &mut dyn FnMut(T),
) -> ScanPosition {
    let shown = place.bytes().map_or(0, |bytes| {
        usize::from_le_bytes(bytes.try_into().expect("a number"))
    });
    let mut rows = rows.skip(shown).peekable();
    for _ in 0..count {
        rows.next().into_iter().for_each(&mut *visit);
    }
    match rows.peek() {
        Some(_) => ScanPosition::at((shown + count).to_le_bytes().to_vec()),
        None => ScanPosition::default(),
    }
}
