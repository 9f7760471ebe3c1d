//! The datapath in the kernel: the descriptors of its maps, and the loader of its programs.

mod attachments;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    ops::{BitOr as _, Range},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use anyhow::{Context, anyhow};
use aya::maps::{MapData, PerCpuArray, PerCpuValues};
use ratelimit_common::{
    ClassSet, Family, Instant, Ipv4, Ipv6, Limit, Policy, Record, Settings, Verdict,
    aggregate::Aggregates,
    compact::Region,
    event::Sampler,
    features::{Feature, Features},
    generation::ByGeneration,
    interface::InterfaceRule,
    layout::{COUNTERS, Counter, INTERFACES_MAX, LISTED_MAX, counter_index, ends},
    new_sources::{Budget, Taken},
    parse::Tunnels,
};
use ratelimit_core::{
    api::MapStatus, class_tables::ClassTables, compile::Switched, config::Interface,
    ip_family::IpFamily, log_size::LogSize, prefix::Prefix,
};
use ratelimit_interface as interface;
use tracing::warn;

use self::attachments::{Age, OwnProgram, Port, unwanted};
use super::{
    Attachments, CounterRow, Datapath, EntryByGeneration, ListTables, LogRow, PolicyTables, Result,
    ScanPosition, SourceRow, SourceTables, Totals, UsageTables,
    challenge_maps::ChallengeMaps,
    compact::CompactTable,
    count,
    cpu_counters::CpuCounters,
    entry_counter_maps::EntryCounterMaps,
    family_maps::{FamilyMaps, LISTS},
    grace_period,
    lease_maps::LeaseMaps,
    lru::Replaced,
    map_errors::{failed, unreadable, unwritable},
    maps::{Elements, Maps},
    policy_ban_maps::{self, PolicyBanMaps},
    prefix_filter_map::PrefixFilter,
    source_maps::{INSERTED, SourceMaps, inserted_index},
};
use crate::{
    loader::{Loader, MapPlan, Pinned, PinnedLink, Sizes},
    recording::CaptureMaps,
    ring::{Events, Ring},
};

const VERDICTS_MAP: &str = "VERDICTS";

/// The rules of interfaces, by name.
type InterfaceRules = BTreeMap<String, InterfaceRule>;

/// The pinned maps, and the programs on their interfaces.
pub struct Kernel {
    /// `None` only while the tables are created.
    loader: Option<Box<dyn Loader>>,
    /// The rules of interfaces, including those without a slot yet.
    rules: ByGeneration<InterfaceRules>,
    interface_rules: Elements<ByGeneration<InterfaceRule>>,
    /// The features of every running program.
    features: Features,
    /// Interfaces with a slot in the counters, by name.
    ports: BTreeMap<String, Port>,
    settings: Elements<Settings>,
    ends: Elements<u64>,
    classes: Elements<ClassSet>,
    aggregates: Elements<ByGeneration<Aggregates>>,
    node: Elements<Record>,
    pub(super) sources: Arc<SourceMaps>,
    /// The sources that ever got state, by family. `sources` only reads it.
    inserted: PerCpuArray<MapData, u64>,
    /// Records of another size, which old programs charge until they are replaced.
    replaced: Option<Replaced>,
    /// Whether running programs have shorter records or logs than the tables.
    is_outgrown: bool,
    pub(super) policy_bans: PolicyBanMaps,
    new_sources: Elements<ByGeneration<Budget>>,
    tunnels: Elements<ByGeneration<Tunnels>>,
    new_sources_taken: Elements<Taken>,
    pub(super) challenge: ChallengeMaps,
    pub(super) leases: LeaseMaps,
    policies: Elements<Policy>,
    pub(super) v4: FamilyMaps<Ipv4>,
    pub(super) v6: FamilyMaps<Ipv6>,
    verdicts: CpuCounters,
    pub(super) entry_counters: EntryCounterMaps,
    sampler: PerCpuArray<MapData, Sampler>,
    events: Option<Events>,
    samples: Option<Ring>,
    usage_reset: Option<&'static str>,
    captures: Option<CaptureMaps>,
    maps: Vec<MapStatus>,
    /// The maps that allocate memory with each entry.
    on_demand: Vec<(&'static str, OwnedFd)>,
}

const OTHER_LAYOUT: &str = "another version of ratelimitd made the tables; usage of sources, \
                            destinations and the node is reset";

impl Kernel {
    /// Has the loader open the maps of a plan for these interfaces. Nothing is attached yet, so the
    /// tables can be filled before the first packet.
    ///
    /// Running programs have at least the features that the tables use: a daemon adds features
    /// before it uses them.
    pub fn open(
        mut loader: Box<dyn Loader>,
        held: &Pinned,
        plan: &MapPlan,
        wanted: &[Interface],
    ) -> anyhow::Result<Self> {
        let maps = Maps::new(loader.open_maps(plan)?);
        let has_other_tables = held.has_other_layout || !Self::are_filled(&maps)?;
        let port = |link: &PinnedLink| {
            let on = interface::running(link.program)?;
            let program = on.map(|on| OwnProgram {
                number: link.program,
                index: on.index,
                takes_long_frames: link.takes_long_frames,
                next: None,
                entry: None,
                has_other_tables,
                age: Age::Adopted,
            });
            let is_configured = |it: &&Interface| it.name == link.interface;
            let interface = wanted.iter().find(is_configured).cloned();
            let port = Port {
                slot: link.slot,
                is_pinned: true,
                interface: interface.unwrap_or_else(|| unwanted(link)),
                program,
            };
            anyhow::Ok((link.interface.clone(), port))
        };
        let mut kernel = Self {
            loader: Some(loader),
            ports: held.links.iter().map(port).collect::<Result<_, _>>()?,
            usage_reset: held.has_other_layout.then_some(OTHER_LAYOUT),
            is_outgrown: outgrows(
                plan.sizes,
                held.record_words.unwrap_or(plan.sizes.words),
                held.logs.unwrap_or(plan.sizes.logs),
            ),
            ..Self::from_maps(&maps, plan.sizes)?
        };
        // Packets are judged by these rules until others are set.
        let switched = kernel.switched()?;
        kernel.rules = switched.map(|tables| tables.interfaces.clone());
        let policies = kernel.policies.some(0..kernel.policies.len())?;
        let policies = policies.iter().map(Features::of_policy);
        let settings = kernel.settings()?;
        let tunnels = switched.of(settings.generation()).tunnels;
        let settings = Features::of_settings(settings)
            .with(Feature::Samples)
            .with_if(!tunnels.is_empty(), Feature::Tunnels);
        kernel.features = policies.fold(settings, Features::bitor);
        kernel.begin_to_carry();
        // A daemon that was killed before it had carried over the usage may not have replaced the
        // programs either.
        kernel.is_outgrown |= kernel.replaced.is_some();
        Ok(kernel)
    }

    /// Returns whether the tables have content. They are new if the old ones do not fit; running
    /// programs keep the old ones.
    fn are_filled(maps: &Maps) -> anyhow::Result<bool> {
        let settings: Elements<Settings> = maps.elements("SETTINGS")?;
        Ok(settings.get(0)?.are_written())
    }

    /// Returns why usage was reset. `None` if it was adopted.
    pub fn usage_reset(&self) -> Option<&'static str> {
        self.usage_reset
    }

    fn from_maps(maps: &Maps, sizes: Sizes) -> anyhow::Result<Self> {
        let on_demand = LISTS.into_iter().chain(policy_ban_maps::BANS);
        let on_demand = on_demand
            .map(|name| Ok((name, maps.descriptor(name)?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            loader: None,
            rules: ByGeneration::default(),
            interface_rules: maps.elements("INTERFACES")?,
            features: Features::NONE,
            ports: BTreeMap::new(),
            settings: maps.elements("SETTINGS")?,
            ends: maps.elements("ENDS")?,
            classes: maps.elements("EXCLUDED_CLASSES")?,
            aggregates: maps.elements("AGGREGATES")?,
            node: maps.elements("NODE")?,
            policy_bans: PolicyBanMaps::new(maps)?,
            new_sources: maps.elements("NEW_SOURCES")?,
            tunnels: maps.elements("TUNNELS")?,
            new_sources_taken: maps.elements("NEW_SOURCES_TAKEN")?,
            challenge: ChallengeMaps::new(maps)?,
            leases: LeaseMaps::new(maps)?,
            sources: Arc::new(SourceMaps::new(maps, sizes)?),
            inserted: maps.open(INSERTED)?,
            replaced: Replaced::of(maps)?,
            is_outgrown: false,
            policies: maps.elements("POLICIES")?,
            v4: FamilyMaps::new(maps)?,
            v6: FamilyMaps::new(maps)?,
            verdicts: CpuCounters::new(maps, VERDICTS_MAP)?,
            entry_counters: EntryCounterMaps::new(maps)?,
            sampler: maps.open("SAMPLER")?,
            usage_reset: None,
            events: Some(maps.open("EVENTS")?),
            samples: Some(Ring::new(maps.descriptor("SAMPLES")?)),
            captures: Some(CaptureMaps::new(
                maps.open("CAPTURE")?,
                maps.open("CAPTURE_TALLY")?,
                Ring::new(maps.descriptor("CAPTURED")?),
            )),
            maps: maps.statuses()?,
            on_demand,
        })
    }

    /// Takes the ring of sampled drops, for its single reader.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }

    /// Takes the maps of captures, for their single owner.
    pub fn take_captures(&mut self) -> anyhow::Result<CaptureMaps> {
        let captures = self.captures.take();
        captures.ok_or_else(|| anyhow!("the capture maps are already in use"))
    }

    /// Takes the ring of samples of all packets, for its single reader.
    pub fn take_samples(&mut self) -> Option<Ring> {
        self.samples.take()
    }

    /// Writes the rules of the interfaces with a slot.
    fn write_rules(&mut self) -> Result<()> {
        for (name, port) in &self.ports {
            self.interface_rules
                .set(port.slot, rule_of(&self.rules, name))?;
        }
        Ok(())
    }

    pub(super) fn set_end(&mut self, index: u32, until: Instant) -> Result<()> {
        self.ends.set(index, until.as_nanos())
    }

    pub(super) fn end(&self, index: u32) -> Result<Instant> {
        self.ends.get(index).map(Instant::from_nanos)
    }
}

/// Returns the rule of an interface in each generation.
fn rule_of(rules: &ByGeneration<InterfaceRules>, interface: &str) -> ByGeneration<InterfaceRule> {
    rules.map(|rules| rules.get(interface).copied().unwrap_or_default())
}

impl ListTables for Kernel {
    fn set_entries(&mut self, entries: &[(Prefix, EntryByGeneration)]) -> Result<()> {
        self.v4.set_entries(entries)?;
        self.v6.set_entries(entries)
    }

    fn remove_entries(&mut self, prefixes: &[Prefix]) -> Result<()> {
        self.v4.remove_entries(prefixes)?;
        self.v6.remove_entries(prefixes)
    }

    fn filter_word(&self, family: IpFamily, index: u32) -> u64 {
        self.prefix_filter(family).load(index)
    }

    fn set_filter_word(&mut self, family: IpFamily, index: u32, word: u64) {
        self.prefix_filter(family).store(index, word);
    }

    fn release(&mut self) {
        self.v4.prefix_filter.release();
        self.v6.prefix_filter.release();
    }

    fn list_capacity(&self, _family: IpFamily) -> u32 {
        LISTED_MAX
    }

    fn entry(&self, prefix: Prefix) -> Result<Option<EntryByGeneration>> {
        match IpFamily::of(prefix.address()) {
            IpFamily::V4 => self.v4.entry(prefix),
            IpFamily::V6 => self.v6.entry(prefix),
        }
    }

    fn entries(&self) -> Result<Vec<(Prefix, EntryByGeneration)>> {
        let mut entries = Vec::new();
        self.v4
            .for_each_entry(|prefix, entry| entries.push((prefix, entry)))?;
        self.v6
            .for_each_entry(|prefix, entry| entries.push((prefix, entry)))?;
        Ok(entries)
    }

    fn some_entries(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(Prefix, EntryByGeneration),
    ) -> Result<ScanPosition> {
        match family {
            IpFamily::V4 => self.v4.for_some_entries(place, count, visit),
            IpFamily::V6 => self.v6.for_some_entries(place, count, visit),
        }
    }

    fn count_entries(&self, family: IpFamily) -> Option<u64> {
        match family {
            IpFamily::V4 => self.v4.count_entries(),
            IpFamily::V6 => self.v6.count_entries(),
        }
    }
}

impl PolicyTables for Kernel {
    fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<()> {
        self.policies.set(index, *policy)
    }

    fn set_settings(&mut self, settings: Settings) -> Result<()> {
        self.settings.set(0, settings)
    }

    fn settings(&self) -> Result<Settings> {
        self.settings.get(0)
    }

    fn set_classes(&mut self, classes: &ClassTables) -> Result<()> {
        let held = self.classes()?;
        let entries = (0..).zip(classes.entries().iter().zip(held.entries()));
        for (index, (wanted, _)) in entries.filter(|(_, (wanted, held))| wanted != held) {
            self.classes.set(index, *wanted)?;
        }
        Ok(())
    }

    fn classes(&self) -> Result<ClassTables> {
        let entries = self.classes.some(0..self.classes.len())?;
        Ok(ClassTables::from_entries(entries))
    }

    fn some_classes(&self, indices: Range<u32>) -> Result<Vec<ClassSet>> {
        self.classes.some(indices)
    }

    fn set_switched(&mut self, switched: &ByGeneration<Switched>) -> Result<()> {
        for family in [0, 1] {
            let aggregates = switched.map(|tables| tables.aggregates[family as usize]);
            self.aggregates.set(family, aggregates)?;
        }
        self.new_sources
            .set(0, switched.map(|tables| tables.new_sources))?;
        self.tunnels.set(0, switched.map(|tables| tables.tunnels))?;
        self.challenge
            .rules
            .set(0, switched.map(|tables| tables.challenge))?;
        self.rules = switched.map(|tables| tables.interfaces.clone());
        self.write_rules()
    }

    fn switched(&self) -> Result<ByGeneration<Switched>> {
        let aggregates = [self.aggregates.get(0)?, self.aggregates.get(1)?];
        let new_sources = self.new_sources.get(0)?;
        let tunnels = self.tunnels.get(0)?;
        let challenge = self.challenge.rules.get(0)?;
        let ports = self.ports.iter();
        let rules = ports.map(|(name, port)| Ok((name, self.interface_rules.get(port.slot)?)));
        let rules: Vec<_> = rules.collect::<Result<_>>()?;
        Ok(ByGeneration::each(|generation| {
            let mut interfaces = self.rules.of(generation).clone();
            let held = rules
                .iter()
                .map(|(name, rule)| ((*name).clone(), *rule.of(generation)));
            interfaces.extend(held);
            interfaces.retain(|_, rule| *rule != InterfaceRule::default());
            Switched {
                aggregates: aggregates.map(|both| *both.of(generation)),
                new_sources: *new_sources.of(generation),
                tunnels: *tunnels.of(generation),
                challenge: *challenge.of(generation),
                interfaces,
            }
        }))
    }

    fn wait_for_packets(&self) {
        grace_period::wait();
    }

    fn set_total(&mut self, slot: u32, record: Record) -> Result<()> {
        self.node.set(slot, record)
    }

    fn log_size(&self) -> LogSize {
        self.sources.log_size()
    }

    fn record_words(&self) -> u32 {
        self.sources.record_words()
    }

    fn table_sets(&self) -> Option<u32> {
        self.sources.compact.as_ref().map(CompactTable::sets)
    }

    fn clear_region(&mut self, region: Region) -> Result<()> {
        let table = self.sources.compact.as_ref();
        table.map_or(Ok(()), |table| table.clear(region))
    }

    fn copy_region(&mut self, from: Region, to: &Limit) -> Result<()> {
        let table = self.sources.compact.as_ref();
        table.map_or(Ok(()), |table| table.copy(from, to))
    }

    fn policy(&self, index: u32) -> Result<Policy> {
        self.policies.get(index)
    }

    fn some_policies(&self, indices: Range<u32>) -> Result<Vec<(u32, Policy)>> {
        let policies = indices.clone().zip(self.policies.some(indices)?);
        let policies = policies.filter(|(_, policy)| *policy != Policy::default());
        Ok(policies.collect())
    }

    fn set_pass_all_until(&mut self, until: Instant) -> Result<()> {
        self.set_end(ends::PASS_ALL, until)
    }

    fn pass_all_until(&self) -> Result<Instant> {
        self.end(ends::PASS_ALL)
    }

    fn new_sources_taken(&self) -> Result<Taken> {
        self.new_sources_taken.get(0)
    }
}

impl UsageTables for Kernel {
    fn put_records(&mut self, family: IpFamily, rows: &[SourceRow]) -> Result<()> {
        self.sources.put_records(family, rows)?;
        self.count_inserted(family, rows.len())
    }

    fn put_slots(&mut self, limit: &Limit, family: IpFamily, rows: &[(IpAddr, u64)]) -> Result<()> {
        if let Some(table) = &self.sources.compact {
            table.put(limit, family, rows)?;
        }
        self.count_inserted(family, rows.len())
    }

    fn put_logs(&mut self, rows: &[LogRow]) -> Result<()> {
        self.sources.put_logs(rows)
    }
}

impl Datapath for Kernel {
    fn sources(&self) -> Arc<dyn SourceTables> {
        Arc::clone(&self.sources) as Arc<dyn SourceTables>
    }

    fn counters(&self) -> Result<Vec<CounterRow>> {
        let mut rows = Vec::new();
        for slot in self.ports.values().map(|port| port.slot) {
            let counts = self.verdicts_in(counter_index_range(slot))?;
            let kinds = Family::ALL
                .into_iter()
                .flat_map(|family| Verdict::all().map(move |verdict| (family, verdict)));
            for (family, verdict) in kinds {
                let count = at(&counts, counter_index(0, family, verdict));
                if count.packets > 0 {
                    rows.push(CounterRow {
                        interface: slot,
                        family,
                        verdict,
                        count,
                    });
                }
            }
        }
        Ok(rows)
    }

    fn totals(&self) -> Result<Totals> {
        let samplers = self
            .sampler
            .get(&0, 0)
            .map_err(failed("reading", "SAMPLER", 1))?;
        Ok(Totals {
            events_sent: samplers.iter().map(|sampler| sampler.sent).sum(),
            events_lost: samplers.iter().map(|sampler| sampler.lost).sum(),
            inserted: self.sources.inserted()?,
        })
    }

    fn maps(&self) -> Vec<MapStatus> {
        let grown = |name: &str| {
            let on_demand = self.on_demand.iter();
            let (_, map) = on_demand.into_iter().find(|(own, _)| *own == name)?;
            count::memory_bytes(map.as_fd())
        };
        let maps = self.maps.iter().cloned();
        maps.map(|map| MapStatus {
            memory_bytes: grown(&map.name).unwrap_or(map.memory_bytes),
            ..map
        })
        .collect()
    }

    fn renew(&mut self, plan: &MapPlan) -> anyhow::Result<()> {
        let maps = Maps::new(self.loader()?.open_maps(plan)?);
        let renewed = Self::from_maps(&maps, plan.sizes)?;
        let sources = &self.sources;
        *self = Self {
            is_outgrown: self.is_outgrown
                || outgrows(plan.sizes, sources.record_words(), sources.log_size()),
            loader: self.loader.take(),
            features: self.features,
            ports: std::mem::take(&mut self.ports),
            rules: std::mem::take(&mut self.rules),
            ..renewed
        };
        let programs = self.ports.values_mut();
        for program in programs.filter_map(|port| port.program.as_mut()) {
            program.age = Age::Outlived;
        }
        self.begin_to_carry();
        Ok(())
    }

    fn lengthen(&mut self, interfaces: &[Interface]) -> anyhow::Result<()> {
        if !self.is_outgrown {
            return Ok(());
        }
        for interface in interfaces {
            let port = self.ports.get(&interface.name);
            if port.is_some_and(Port::reads_these_tables) {
                self.attach(interface)?;
            }
        }
        self.settle()
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        self.is_outgrown = false;
        if self.replaced.is_none() {
            return Ok(());
        }
        self.carry()?;
        self.replaced = None;
        self.loader()?.forget_replaced()
    }
}

/// Whether records or logs of these sizes are longer than others, and neither is shorter.
const fn outgrows(sizes: Sizes, words: u32, logs: LogSize) -> bool {
    let (longer_records, longer_logs) = (sizes.words > words, sizes.logs.times > logs.times);
    (longer_records || longer_logs) && sizes.words >= words && sizes.logs.times >= logs.times
}

impl Kernel {
    /// Copies the usage from records of another size. Failures are retried when the programs are
    /// replaced.
    fn begin_to_carry(&self) {
        if let Err(error) = self.carry() {
            let error = format!("{error:#}");
            warn!(
                error,
                "the usage of sources could not be carried over to the new record size"
            );
        }
    }

    fn carry(&self) -> Result<()> {
        let replaced = self.replaced.as_ref();
        replaced.map_or(Ok(()), |replaced| self.sources.take_over(replaced))
    }

    /// Counts sources as if packets on the first CPU had created them.
    fn count_inserted(&mut self, family: IpFamily, sources: usize) -> Result<()> {
        let error = || failed("writing", INSERTED, 2);
        let index = inserted_index(family);
        let mut cpus = self.inserted.get(&index, 0).map_err(error())?.to_vec();
        cpus[0] += sources as u64;
        let cpus = PerCpuValues::try_from(cpus).map_err(unwritable(INSERTED))?;
        self.inserted.set(index, cpus, 0).map_err(error())
    }

    fn loader(&mut self) -> anyhow::Result<&mut Box<dyn Loader>> {
        self.loader.as_mut().context("there is no loader")
    }

    const fn prefix_filter(&self, family: IpFamily) -> &PrefixFilter {
        match family {
            IpFamily::V4 => &self.v4.prefix_filter,
            IpFamily::V6 => &self.v6.prefix_filter,
        }
    }

    pub(super) fn verdicts_in(&self, indices: Range<u32>) -> Result<Vec<Counter>> {
        let counts = self.verdicts.sums(indices);
        counts.map_err(unreadable(VERDICTS_MAP))
    }
}

/// Returns the counters of an interface.
const fn counter_index_range(slot: u32) -> Range<u32> {
    const ROWS: u32 = COUNTERS / INTERFACES_MAX;
    let first = slot % INTERFACES_MAX * ROWS;
    first..first + ROWS
}

pub(super) fn at(counts: &[Counter], index: u32) -> Counter {
    counts.get(index as usize).copied().unwrap_or_default()
}
