//! The datapath in the kernel: the loaded programs and their pinned maps.

use std::{
    fs,
    net::IpAddr,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use anyhow::{Context, anyhow};
use aya::maps::{Array, MapData, PerCpuArray};
use ratelimit_common::{
    BanBudgets, ClassSet, Detected, Family, Instant, Ipv4, Ipv6, ListEntry, Policy, Record,
    Settings, Standing, Verdict,
    aggregate::Aggregates,
    algorithm::FixedWindow,
    compact::Region,
    detected::Tally,
    event::Sampler,
    layout::{Counter, LISTED_MAX, NODE_POLICIES, POLICIES_MAX, counter_index},
};

use super::{
    Attachment, CounterRow, Datapath, DatapathError, Detachment, Events, InterfaceState, IpFamily,
    Log, LogSize, Pins, Place, Ring, Sizes, SourceTables, Totals, batch,
    class_maps::ClassMaps,
    compact::CompactTable,
    count,
    detected_maps::{self, DetectedMaps},
    family_maps::{self, FamilyMaps, failed, unreadable},
    guard::Guard,
    interface, link,
    load::{self, Loaded, Maps},
    pins::LinkPin,
    source_maps::SourceMaps,
};
use crate::{
    api::MapStatus,
    class_tables::{ClassArray, ClassTables},
    config::{Config, Interface},
    prefix::Prefix,
    recording::CaptureMaps,
};

/// The pinned maps, and the programs on their interfaces.
pub struct Kernel {
    pins: Pins,
    settings: Array<MapData, Settings>,
    pass_all_until: Array<MapData, u64>,
    classes: ClassMaps,
    aggregates: Array<MapData, Aggregates>,
    node: Array<MapData, Record>,
    compact: Option<CompactTable>,
    sources: Arc<SourceMaps>,
    detected: DetectedMaps,
    new_sources: Array<MapData, FixedWindow>,
    policies: Array<MapData, Policy>,
    policies_fd: OwnedFd,
    v4: FamilyMaps<Ipv4>,
    v6: FamilyMaps<Ipv6>,
    verdicts: PerCpuArray<MapData, Counter>,
    sampler: PerCpuArray<MapData, Sampler>,
    events: Option<Events>,
    samples: Option<Ring>,
    captures: Option<CaptureMaps>,
    /// Programs that are loaded and wait for their interface.
    loaded: Vec<Loaded>,
    attachments: Vec<Attachment>,
    maps: Vec<MapStatus>,
    /// Those of them that take memory with each entry.
    on_demand: Vec<(&'static str, OwnedFd)>,
}

impl Kernel {
    /// Loads a program for each interface of `config`, with maps of these sizes, on the pinned maps where they fit. Nothing is attached yet, so the tables can be filled before the first packet.
    ///
    /// # Errors
    ///
    /// When an interface is missing or taken, a capability is missing, or the kernel refuses.
    pub fn load(config: &Config, sizes: Sizes) -> anyhow::Result<Self> {
        let pins = Pins::open(&config.paths.pins)?;
        let mut loaded = load::programs(config, sizes, &pins)?;
        let first = loaded
            .first_mut()
            .ok_or_else(|| anyhow!("no interface is configured"))?;
        let maps = load::statuses(&first.ebpf)?;
        Self::from_maps(pins, &mut Maps(&mut first.ebpf), sizes, maps)
            .map(|kernel| Self { loaded, ..kernel })
    }

    fn from_maps(
        pins: Pins,
        maps: &mut Maps<'_>,
        sizes: Sizes,
        statuses: Vec<MapStatus>,
    ) -> anyhow::Result<Self> {
        let on_demand = [
            family_maps::V4.lists,
            family_maps::V6.lists,
            detected_maps::V4,
            detected_maps::V6,
        ];
        let on_demand = on_demand
            .into_iter()
            .map(|name| Ok((name, maps.descriptor(name)?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            pins,
            settings: maps.take("SETTINGS")?,
            pass_all_until: maps.take("PASS_ALL_UNTIL")?,
            classes: ClassMaps::new(maps)?,
            aggregates: maps.take("AGGREGATES")?,
            node: maps.share("NODE")?,
            detected: DetectedMaps::new(maps)?,
            new_sources: maps.take("NEW_SOURCES")?,
            compact: sizes
                .sets
                .map(|sets| CompactTable::new(maps, sets))
                .transpose()?,
            sources: Arc::new(SourceMaps::new(maps, sizes)?),
            policies_fd: maps.descriptor("POLICIES")?,
            policies: maps.take("POLICIES")?,
            v4: FamilyMaps::new(maps, &family_maps::V4)?,
            v6: FamilyMaps::new(maps, &family_maps::V6)?,
            verdicts: maps.take("VERDICTS")?,
            sampler: maps.take("SAMPLER")?,
            events: Some(maps.take("EVENTS")?),
            samples: Some(Ring::new(maps.descriptor("SAMPLES")?)),
            captures: Some(CaptureMaps::new(
                maps.take("CAPTURE")?,
                maps.take("CAPTURE_TALLY")?,
                Ring::new(maps.descriptor("CAPTURED")?),
            )),
            loaded: Vec::new(),
            attachments: Vec::new(),
            maps: statuses,
            on_demand,
        })
    }

    /// The ring of sampled drops, for its one reader.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }

    /// The maps of captures, for their one owner.
    ///
    /// # Errors
    ///
    /// When they have one already.
    pub fn take_captures(&mut self) -> anyhow::Result<CaptureMaps> {
        let captures = self.captures.take();
        captures.ok_or_else(|| anyhow!("the maps of captures are taken already"))
    }

    /// The ring of samples of all packets, for its one reader.
    pub fn take_samples(&mut self) -> Option<Ring> {
        self.samples.take()
    }

    /// What the loaded programs log, in debug builds only.
    ///
    /// # Errors
    ///
    /// When the ring of the log cannot be opened.
    pub fn take_logs(&mut self) -> anyhow::Result<Vec<Log>> {
        if cfg!(not(bpf_log)) {
            return Ok(Vec::new());
        }
        let logs = self
            .loaded
            .iter_mut()
            .map(|loaded| Log::init(&mut loaded.ebpf));
        logs.collect::<Result<_, _>>()
            .context("opening the log of the program")
    }
}

impl Datapath for Kernel {
    fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<(), DatapathError> {
        self.policies
            .set(index, policy, 0)
            .map_err(failed("writing", "POLICIES", POLICIES_MAX))
    }

    fn set_settings(&mut self, settings: Settings) -> Result<(), DatapathError> {
        self.settings
            .set(0, settings, 0)
            .map_err(failed("writing", "SETTINGS", 1))
    }

    fn settings(&self) -> Result<Settings, DatapathError> {
        self.settings
            .get(&0, 0)
            .map_err(failed("reading", "SETTINGS", 1))
    }

    fn set_classes(&mut self, classes: &ClassTables) -> Result<(), DatapathError> {
        self.classes.set(classes)
    }

    fn classes(&self) -> Result<ClassTables, DatapathError> {
        self.classes.read()
    }

    fn some_classes(
        &self,
        array: ClassArray,
        indices: Range<u32>,
    ) -> Result<Vec<ClassSet>, DatapathError> {
        self.classes.read_some(array, indices)
    }

    fn set_aggregates(
        &mut self,
        family: IpFamily,
        aggregates: Aggregates,
    ) -> Result<(), DatapathError> {
        self.aggregates
            .set(family as u32, aggregates, 0)
            .map_err(failed("writing", "AGGREGATES", 2))
    }

    fn aggregates(&self, family: IpFamily) -> Result<Aggregates, DatapathError> {
        self.aggregates
            .get(&(family as u32), 0)
            .map_err(failed("reading", "AGGREGATES", 2))
    }

    fn clear_node(&mut self, scope: u32) -> Result<(), DatapathError> {
        self.node
            .set(scope % NODE_POLICIES, Record::default(), 0)
            .map_err(failed("writing", "NODE", NODE_POLICIES))
    }

    fn log_size(&self) -> LogSize {
        self.sources.log_size()
    }

    fn table_sets(&self) -> Option<u32> {
        self.compact.as_ref().map(CompactTable::sets)
    }

    fn clear_region(&mut self, region: Region) -> Result<(), DatapathError> {
        let table = self.compact.as_mut();
        table.map_or(Ok(()), |table| table.clear(region))
    }

    fn sources(&self) -> Arc<dyn SourceTables> {
        Arc::clone(&self.sources) as Arc<dyn SourceTables>
    }

    fn set_entries(&mut self, entries: &[(Prefix, ListEntry)]) -> Result<(), DatapathError> {
        self.v4.set_entries(entries)?;
        self.v6.set_entries(entries)
    }

    fn remove_entries(&mut self, prefixes: &[Prefix]) -> Result<(), DatapathError> {
        self.v4.remove_entries(prefixes)?;
        self.v6.remove_entries(prefixes)
    }

    fn guard_word(&self, family: IpFamily, index: u32) -> u64 {
        self.guard(family).load(index)
    }

    fn set_guard_word(&mut self, family: IpFamily, index: u32, word: u64) {
        self.guard(family).store(index, word);
    }

    fn release(&mut self) {
        self.v4.release();
        self.v6.release();
    }

    fn list_capacity(&self, _family: IpFamily) -> u32 {
        LISTED_MAX
    }

    fn entry(&self, prefix: Prefix) -> Result<Option<ListEntry>, DatapathError> {
        match IpFamily::of(prefix.address()) {
            IpFamily::V4 => self.v4.entry(prefix),
            IpFamily::V6 => self.v6.entry(prefix),
        }
    }

    fn entries(&self) -> Result<Vec<(Prefix, ListEntry)>, DatapathError> {
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
        place: &Place,
        count: usize,
        visit: &mut dyn FnMut(Prefix, ListEntry),
    ) -> Result<Place, DatapathError> {
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

    fn policy(&self, index: u32) -> Result<Policy, DatapathError> {
        self.policies
            .get(&index, 0)
            .map_err(failed("reading", "POLICIES", POLICIES_MAX))
    }

    fn some_policies(&self, indices: Range<u32>) -> Result<Vec<(u32, Policy)>, DatapathError> {
        let mut policies = Vec::new();
        let policies_fd = self.policies_fd.as_fd();
        batch::for_range(policies_fd, indices, |index, policy: Policy| {
            if policy != Policy::default() {
                policies.push((index, policy));
            }
        })
        .map_err(unreadable("POLICIES"))?;
        Ok(policies)
    }

    fn counters(&self) -> Result<Vec<CounterRow>, DatapathError> {
        let mut rows = Vec::new();
        for slot in self.attachments.iter().map(|attachment| attachment.slot) {
            for family in Family::ALL {
                for verdict in Verdict::all() {
                    let count = self.counter(slot, family, verdict)?;
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
        }
        Ok(rows)
    }

    fn strikes(&self, source: IpAddr) -> Result<u64, DatapathError> {
        match source {
            IpAddr::V4(address) => self.v4.strikes(address.into()),
            IpAddr::V6(address) => self.v6.strikes(address.into()),
        }
    }

    fn set_pass_all_until(&mut self, until: Instant) -> Result<(), DatapathError> {
        let answer = self.pass_all_until.set(0, until.as_nanos(), 0);
        answer.map_err(failed("writing", "PASS_ALL_UNTIL", 1))
    }

    fn pass_all_until(&self) -> Result<Instant, DatapathError> {
        let answer = self.pass_all_until.get(&0, 0).map(Instant::from_nanos);
        answer.map_err(failed("reading", "PASS_ALL_UNTIL", 1))
    }

    fn set_new_sources(&mut self, window: FixedWindow) -> Result<(), DatapathError> {
        let answer = self.new_sources.set(0, window, 0);
        answer.map_err(failed("writing", "NEW_SOURCES", 1))
    }

    fn new_sources(&self) -> Result<FixedWindow, DatapathError> {
        let answer = self.new_sources.get(&0, 0);
        answer.map_err(failed("reading", "NEW_SOURCES", 1))
    }

    fn set_detection_limit(&mut self, limit: BanBudgets) -> Result<(), DatapathError> {
        self.detected.set_limit(limit)
    }

    fn detection_limit(&self) -> Result<BanBudgets, DatapathError> {
        self.detected.limit()
    }

    fn take_ban(
        &mut self,
        budgets: BanBudgets,
        standing: Standing,
        now: Instant,
    ) -> Result<bool, DatapathError> {
        self.detected.take(budgets, standing, now)
    }

    fn detected(&self, source: IpAddr) -> Result<Option<Detected>, DatapathError> {
        self.detected.get(source)
    }

    fn all_detected(&self) -> Result<Vec<(IpAddr, Detected)>, DatapathError> {
        self.detected.all()
    }

    fn forget_detected(&mut self, taken: &[(IpAddr, Detected)]) -> Result<(), DatapathError> {
        self.detected.forget(taken)
    }

    fn tally(&self) -> Result<Tally, DatapathError> {
        self.detected.tally()
    }

    fn totals(&self) -> Result<Totals, DatapathError> {
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

    fn attached(&self) -> Vec<(Interface, u32, Option<InterfaceState>)> {
        let state = |attachment: &Attachment| {
            let state = interface::query(&attachment.interface.name).ok().flatten();
            let ours = attachment.program_id().ok().flatten();
            state.filter(|state| ours.is_some() && state.program.map(|(_, id)| id) == ours)
        };
        self.attachments
            .iter()
            .map(|a| (a.interface.clone(), a.slot, state(a)))
            .collect()
    }

    fn attach(&mut self) -> anyhow::Result<()> {
        let links = self.pins.all_links()?;
        let pinned = |name: &str| links.iter().find(|pin| pin.interface == name);
        for loaded in &mut self.loaded {
            let (interface, slot) = (loaded.interface.clone(), loaded.slot);
            let pin = pinned(&interface.name);
            match link::attach(loaded.xdp()?, &interface, slot, &self.pins, pin) {
                Ok(attachment) => self.attachments.push(attachment),
                Err(error) => {
                    let anew = self
                        .attachments
                        .iter()
                        .filter(|a| pinned(&a.interface.name).is_none());
                    for attachment in anew {
                        let _ = fs::remove_file(
                            self.pins.link(attachment.slot, &attachment.interface.name),
                        );
                    }
                    return Err(error);
                }
            }
        }
        self.loaded.clear();
        let configured = |pin: &&LinkPin| {
            self.attachments
                .iter()
                .any(|a| a.interface.name == pin.interface)
        };
        for pin in links.iter().filter(|pin| !configured(pin)) {
            link::detach(pin)?;
        }
        self.pins.remove_other_layouts()
    }

    fn detach(&mut self) -> anyhow::Result<Detachment> {
        self.attachments.iter_mut().for_each(Attachment::release);
        let mut interfaces = Vec::new();
        for pin in self.pins.all_links()? {
            link::detach(&pin)?;
            interfaces.push(pin.interface);
        }
        self.pins.remove_all()?;
        Ok(Detachment { interfaces })
    }
}

impl Kernel {
    const fn guard(&self, family: IpFamily) -> &Guard {
        match family {
            IpFamily::V4 => self.v4.guard(),
            IpFamily::V6 => self.v6.guard(),
        }
    }

    fn counter(
        &self,
        slot: u32,
        family: Family,
        verdict: Verdict,
    ) -> Result<Counter, DatapathError> {
        let index = counter_index(slot, family, verdict);
        let values = self
            .verdicts
            .get(&index, 0)
            .map_err(failed("reading", "VERDICTS", 0))?;
        Ok(values.iter().fold(Counter::default(), |sum, cpu| Counter {
            packets: sum.packets.wrapping_add(cpu.packets),
            bytes: sum.bytes.wrapping_add(cpu.bytes),
        }))
    }
}
