//! The XDP program, loaded without pins, and run on frames by `BPF_PROG_TEST_RUN`.

use std::{
    env,
    net::IpAddr,
    os::fd::{AsFd as _, AsRawFd as _},
    path::PathBuf,
    sync::{Mutex, PoisonError, atomic::Ordering::Relaxed},
};

use anyhow::{Context, Result, ensure};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, MapData, PerCpuArray, PerCpuValues, RingBuf},
    programs::{ProgramInfo, SchedClassifier, TestRun, TestRunOptions, Xdp},
    util::KernelVersion,
};
use aya_obj::{Map, Object, generated::bpf_map_type::BPF_MAP_TYPE_LRU_HASH};
use ratelimit_common::{
    BanBudgets, ClassSet, DropReason, Evidence, Family, Instant, Ipv4, Ipv6, ListEntry, PassReason,
    Policy, Record, Settings, Verdict,
    aggregate::Aggregates,
    ban_budget::SLOTS,
    challenge::{self, answer_limit::ANSWER_BUCKETS},
    compact::Region,
    cpu_state::CpuState,
    direct::Direct,
    event::{BanEvent, DropEvent, Sampler},
    features::{Feature, Features},
    generation::ByGeneration,
    layout::{self, Counter, LOG_TIMES, clock, counter_index, ends, store},
    limit::LIMITS_MAX,
    new_sources::{Budget, BudgetShares, UsedBudgets},
    node::Shares,
    parse::{LinkLayer, Tunnels},
    policy_ban::Tally,
    source::{LogKey, SourceKey},
    source_filter::Filter,
};
use ratelimit_core::{atomic_ring::AtomicRing, class_tables::ClassTables, prefix::Prefix};
use ratelimit_daemon::{
    datapath::Mapped,
    loader::{LEAN_OBJECT, SOURCE_MAPS, pass_verifier, specialised},
};
use tempfile::TempDir;
use zerocopy::{FromBytes, FromZeros as _, IntoBytes};

use crate::{
    counters::Counters,
    family::{FamilyMaps, REFUSED_SETS, mapped, refused_sets, take_map},
    random,
};

/// Slots of the node and of destinations that tests use.
pub const TOTALS: u32 = 32;

/// Constants fixed when the program is loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// One of [`clock`]'s.
    pub clock: u32,
    /// The slot of the interface.
    pub interface: u32,
    /// The bits of an address that make it a source.
    pub masks: (Ipv4, Ipv6),
    /// Sources of each family that have room.
    pub sources: u32,
    /// Words of a record of a source: a power of two.
    pub words: u32,
    /// Bytes of the ring of events.
    pub events_bytes: u32,
    /// Bans of policies that have room, of each family.
    pub policy_bans: u32,
    /// Sliding logs that have room, 8 KiB each.
    pub logs: u32,
    /// The entry point, by its name.
    pub entry_point: &'static str,
    /// Whether what passes goes to the program of the slot, if there is one.
    pub has_next: bool,
    /// One of [`store`]'s.
    pub store: u32,
    /// Sets of a `compact` table.
    pub sets: u32,
    /// The seeds of a `compact` table.
    pub seeds: [u64; 2],
    /// The first header of frames.
    pub link_layer: LinkLayer,
    /// The tunnels that are looked into.
    pub tunnels: Tunnels,
    /// Whether programs on one CPU could interrupt each other.
    pub interruptible: bool,
    /// The features that the program is specialised for.
    pub features: Features,
}

impl Constants {
    /// The features of the configuration, and those that the program has besides.
    fn all_features(&self) -> Features {
        let has_ticks = self.clock == clock::KERNEL && !self.interruptible;
        let features = if has_ticks {
            self.features
        } else {
            self.features.without(Feature::CoarseClock)
        };
        let features = features
            .with_if(self.clock == clock::MANUAL, Feature::ManualClock)
            .with_if(self.store == store::COMPACT, Feature::Compact)
            .with_if(self.interruptible, Feature::Interruptible)
            .with_if(self.has_next, Feature::Next)
            .with_if(self.tunnels != Tunnels::NONE, Feature::Tunnels)
            .with_if(self.link_layer != LinkLayer::Ethernet, Feature::NoEthernet);
        match self.entry_point {
            layout::PROGRAM_FRAGS => features.with(Feature::Frags),
            layout::PROGRAM_TCX => features.at_tcx(),
            _ => features,
        }
    }
}

impl Default for Constants {
    /// Sources are IPv4 addresses and IPv6 /64s; the test chooses the time.
    fn default() -> Self {
        Self {
            clock: clock::MANUAL,
            interface: 0,
            masks: source_masks(32, 64),
            sources: 1 << 16,
            words: LIMITS_EACH,
            events_bytes: 1 << 16,
            policy_bans: 1 << 10,
            logs: 1,
            entry_point: layout::PROGRAM,
            has_next: false,
            store: default_store(),
            sets: match default_store() {
                store::COMPACT => LIMITS_EACH * (SETS_FIRST + POLICIES_PLACED * SETS_EACH),
                _ => 1,
            },
            seeds: [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9],
            link_layer: LinkLayer::Ethernet,
            tunnels: Tunnels::NONE,
            interruptible: false,
            features: Features::ALL,
        }
    }
}

/// The sets of each limit of the first policy: enough to keep ten thousand sources apart.
const SETS_FIRST: u32 = 1 << 15;
/// Other policies that get regions of their own.
const POLICIES_PLACED: u32 = 32;
const LIMITS_EACH: u32 = 8;
const _: () = assert!(LIMITS_EACH as usize == LIMITS_MAX);
/// Sets that each of their limits gets.
const SETS_EACH: u32 = 64;

/// The return value of a program that sends the frame back.
const XDP_TX: u32 = 3;

/// Whether tests that look into the records of LRU maps find any.
pub fn has_records() -> bool {
    default_store() == store::LRU
}

/// The store that tests are run on: `RATELIMIT_STORE=compact` is the other one.
fn default_store() -> u32 {
    match env::var("RATELIMIT_STORE") {
        Ok(store) if store == "compact" => store::COMPACT,
        _ => store::LRU,
    }
}

/// The policy at `index`, with a region for each of its limits where the store is `compact` and
/// they have none.
pub(crate) fn placed(index: u32, policy: &Policy, store: u32) -> Policy {
    let is_placed = policy.limits().any(|limit| limit.region().sets() > 0);
    if store != store::COMPACT || is_placed {
        return *policy;
    }
    let region = |limit| match index.checked_sub(1) {
        None => Region::new(limit * SETS_FIRST, SETS_FIRST),
        Some(other) => {
            let place = (other % POLICIES_PLACED) * LIMITS_EACH + limit;
            Region::new(LIMITS_EACH * SETS_FIRST + place * SETS_EACH, SETS_EACH)
        }
    };
    let regions: Vec<Region> = (0..LIMITS_EACH).map(region).collect();
    policy.in_regions(&regions)
}

/// Whether the kernel has TCX.
pub fn has_tcx() -> bool {
    KernelVersion::current().is_ok_and(|it| it >= KernelVersion::new(6, 6, 0))
}

/// Returns the masks that keep these numbers of bits of an address.
pub fn source_masks(ipv4_bits: u8, ipv6_bits: u8) -> (Ipv4, Ipv6) {
    let ipv4 = u32::MAX.checked_shl(32 - u32::from(ipv4_bits)).unwrap_or(0);
    let ipv6 = u128::MAX
        .checked_shl(128 - u32::from(ipv6_bits))
        .unwrap_or(0);
    (Ipv4::new(ipv4.to_be_bytes()), Ipv6::new(ipv6.to_be_bytes()))
}

/// The return value of the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// `XDP_DROP`.
    Drop,
    /// `XDP_PASS`.
    Pass,
    /// `XDP_TX`: the frame goes back, as it was written over.
    Answer,
}

impl From<Verdict> for Action {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass(_) | Verdict::Observe(_) => Self::Pass,
            Verdict::Drop(DropReason::Challenged) => Self::Answer,
            Verdict::Drop(_) => Self::Drop,
        }
    }
}

/// The words of a sliding log in the object as it was built.
pub type LogWords = [u64; LOG_TIMES as usize + 1];

/// The size of a test run's first buffer: a page minus the headroom and `skb_shared_info`.
pub const ONE_BUFFER_BYTES: usize = 4_096 - 256 - 320;

/// Maps that are made before the program is loaded, and pinned until then, where aya finds them:
/// those that it reaches by their address, and those of sources whose records are shorter than the
/// object says.
struct Pinned(TempDir);

impl Pinned {
    fn make(constants: &Constants) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("rltest-maps-")
            .tempdir_in("/sys/fs/bpf")
            .context("making a directory on the bpffs")?;
        let pinned = Self(directory);
        let object = Object::parse(&LEAN_OBJECT)?;
        for name in Direct::NAMES {
            let map = object.maps.get(name).context("a map is missing")?;
            let map = Map::new_from_params(
                map.map_type(),
                map.key_size(),
                map.value_size(),
                map.max_entries(),
                map.map_flags(),
            );
            MapData::create(map, name, None)?.pin(pinned.path(name))?;
        }
        if constants.words == LIMITS_EACH {
            return Ok(pinned);
        }
        let keys = [size_of::<SourceKey<Ipv4>>(), size_of::<SourceKey<Ipv6>>()];
        for (name, key) in SOURCE_MAPS.into_iter().zip(keys) {
            let map = Map::new_from_params(
                BPF_MAP_TYPE_LRU_HASH as u32,
                u32::try_from(key)?,
                constants.words * u64::BITS / u8::BITS,
                constants.sources,
                0,
            );
            MapData::create(map, name, None)?.pin(pinned.path(name))?;
        }
        Ok(pinned)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let all = Direct::NAMES.into_iter().chain(SOURCE_MAPS);
        all.filter(|name| self.path(name).exists())
    }
}

/// A loaded program with its maps.
pub struct Program {
    ebpf: Ebpf,
    store: u32,
    entry_point: &'static str,
    features: Features,
    interface: u32,
    settings: Array<MapData, Settings>,
    ends: Array<MapData, u64>,
    policies: Array<MapData, Policy>,
    classes: Array<MapData, ClassSet>,
    held_classes: ClassTables,
    aggregates: Array<MapData, ByGeneration<Aggregates>>,
    node: Array<MapData, Record>,
    shares: PerCpuArray<MapData, Shares>,
    logs: HashMap<MapData, LogKey, LogWords>,
    clock: Mutex<Array<MapData, u64>>,
    counters: Counters,
    entry_counters: PerCpuArray<MapData, Counter>,
    inserted: PerCpuArray<MapData, u64>,
    samplers: PerCpuArray<MapData, Sampler>,
    filter: Array<MapData, Filter>,
    ban_budgets: Array<MapData, BanBudgets>,
    ban_rings: Mapped,
    tally: PerCpuArray<MapData, Tally>,
    new_sources: Array<MapData, ByGeneration<Budget>>,
    challenge: Array<MapData, ByGeneration<challenge::Rules>>,
    challenge_taken: Array<MapData, challenge::SharedState>,
    cpu_state: PerCpuArray<MapData, CpuState>,
    answered: Mapped,
    discovered: PerCpuArray<MapData, u64>,
    new_sources_taken: Array<MapData, UsedBudgets>,
    new_sources_shares: PerCpuArray<MapData, BudgetShares>,
    /// The lists and sources of IPv4.
    pub ipv4: FamilyMaps<Ipv4>,
    /// The lists and sources of IPv6.
    pub ipv6: FamilyMaps<Ipv6>,
}

impl Program {
    /// Loads the program.
    pub fn load(constants: &Constants) -> Result<Self> {
        let refused_sets = refused_sets()?;
        let link_layer = constants.link_layer.number();
        let first_counter = layout::first_counter(constants.interface);
        let pinned = Pinned::make(constants)?;
        let mut loader = EbpfLoader::new();
        for name in pinned.names() {
            loader.map_pin_path(name, pinned.path(name));
        }
        let direct_maps: Vec<_> = Direct::NAMES
            .iter()
            .map(|name| MapData::from_pin(pinned.path(name)))
            .collect::<Result<_, _>>()?;
        let mut descriptors = [0; Direct::NAMES.len()];
        for (descriptor, map) in descriptors.iter_mut().zip(&direct_maps) {
            *descriptor = map.fd().as_fd().as_raw_fd();
        }
        let mut ebpf = loader
            .override_global("RECORD_WORDS", &constants.words, true)
            .override_global("INTERFACE", &constants.interface, true)
            .override_global("FIRST_COUNTER", &first_counter, true)
            .override_global("LINK_LAYER", &link_layer, true)
            .override_global("SOURCE_MASK_V4", &constants.masks.0, true)
            .override_global("SOURCE_MASK_V6", &constants.masks.1, true)
            .map_max_entries("SOURCES_V4", constants.sources)
            .map_max_entries("SOURCES_V6", constants.sources)
            .override_global("REFUSED_SETS", &REFUSED_SETS, true)
            .map_max_entries("REFUSED_V4", refused_sets)
            .map_max_entries("REFUSED_V6", refused_sets)
            .override_global("COMPACT_SEED_0", &constants.seeds[0], true)
            .override_global("COMPACT_SEED_1", &constants.seeds[1], true)
            .map_max_entries("COMPACT_V4", constants.sets)
            .map_max_entries("COMPACT_V6", constants.sets)
            .map_max_entries("POLICY_BANS_V4", constants.policy_bans)
            .map_max_entries("POLICY_BANS_V6", constants.policy_bans)
            .map_max_entries("EVENTS", constants.events_bytes)
            .map_max_entries("LOGS", constants.logs)
            .load(&specialised(constants.all_features(), &descriptors)?)
            .context("reading the object")?;
        let program = ebpf
            .program_mut(constants.entry_point)
            .context("the object has no program")?;
        let loaded = if constants.entry_point == layout::PROGRAM_TCX {
            pass_verifier(program.try_into()?, SchedClassifier::load)
        } else {
            pass_verifier(program.try_into()?, Xdp::load)
        };
        loaded.context("loading the program")?;
        let mut tunnels: Array<_, _> = take_map(&mut ebpf, "TUNNELS")?.try_into()?;
        tunnels.set(0, ByGeneration::both(constants.tunnels), 0)?;
        Ok(Self {
            entry_point: constants.entry_point,
            features: constants.features,
            store: constants.store,
            interface: constants.interface,
            settings: take_map(&mut ebpf, "SETTINGS")?.try_into()?,
            ends: take_map(&mut ebpf, "ENDS")?.try_into()?,
            policies: take_map(&mut ebpf, "POLICIES")?.try_into()?,
            classes: take_map(&mut ebpf, "EXCLUDED_CLASSES")?.try_into()?,
            held_classes: ClassTables::default(),
            aggregates: take_map(&mut ebpf, "AGGREGATES")?.try_into()?,
            node: take_map(&mut ebpf, "NODE")?.try_into()?,
            shares: take_map(&mut ebpf, "NODE_SHARES")?.try_into()?,
            logs: take_map(&mut ebpf, "LOGS")?.try_into()?,
            clock: Mutex::new(take_map(&mut ebpf, "MANUAL_CLOCK")?.try_into()?),
            counters: Counters::take(&take_map(&mut ebpf, "VERDICTS")?)?,
            entry_counters: take_map(&mut ebpf, "ENTRY_COUNTERS")?.try_into()?,
            inserted: take_map(&mut ebpf, "INSERTED")?.try_into()?,
            samplers: take_map(&mut ebpf, "SAMPLER")?.try_into()?,
            filter: take_map(&mut ebpf, "FILTERS")?.try_into()?,
            ban_budgets: take_map(&mut ebpf, "BAN_BUDGETS")?.try_into()?,
            ban_rings: mapped(&take_map(&mut ebpf, "BAN_RING")?, SLOTS * 2)?,
            tally: take_map(&mut ebpf, "BAN_RESULTS")?.try_into()?,
            new_sources: take_map(&mut ebpf, "NEW_SOURCES")?.try_into()?,
            challenge: take_map(&mut ebpf, "CHALLENGE")?.try_into()?,
            challenge_taken: take_map(&mut ebpf, "CHALLENGE_TAKEN")?.try_into()?,
            cpu_state: take_map(&mut ebpf, "OF_CPU")?.try_into()?,
            answered: mapped(&take_map(&mut ebpf, "ANSWERED")?, ANSWER_BUCKETS)?,
            discovered: take_map(&mut ebpf, "NEIGHBOUR_DISCOVERY")?.try_into()?,
            new_sources_taken: take_map(&mut ebpf, "NEW_SOURCES_TAKEN")?.try_into()?,
            new_sources_shares: take_map(&mut ebpf, "NEW_SOURCES_SHARES")?.try_into()?,
            ipv4: FamilyMaps::take(&mut ebpf)?,
            ipv6: FamilyMaps::take(&mut ebpf)?,
            ebpf,
        })
    }

    /// What the kernel knows of the program.
    pub fn info(&self) -> Result<ProgramInfo> {
        let program = self.ebpf.program(self.entry_point).expect("it was loaded");
        Ok(program.info()?)
    }

    /// The program itself.
    pub fn xdp(&self) -> &Xdp {
        let program = self.ebpf.program(self.entry_point).expect("it was loaded");
        program.try_into().expect("it was loaded as XDP")
    }

    /// The program itself, to be attached.
    pub fn xdp_mut(&mut self) -> &mut Xdp {
        let program = self
            .ebpf
            .program_mut(self.entry_point)
            .expect("it was loaded");
        program.try_into().expect("it was loaded as XDP")
    }

    /// Whether a frame fits into the buffers that the program may be given.
    pub fn takes(&self, frame_bytes: usize) -> bool {
        match self.entry_point {
            layout::PROGRAM_FRAGS => true,
            // The kernel refuses test runs without a whole IP header.
            layout::PROGRAM_TCX => (54..=ONE_BUFFER_BYTES).contains(&frame_bytes),
            _ => frame_bytes <= ONE_BUFFER_BYTES,
        }
    }

    /// Runs the program on a frame.
    pub fn run(&self, frame: &[u8]) -> Result<Action> {
        self.run_often(frame, 1)
    }

    /// Runs the program on a frame `times` times; the answer is the last one.
    pub fn run_often(&self, frame: &[u8], times: u32) -> Result<Action> {
        let options = TestRunOptions {
            data_in: Some(frame),
            repeat: times,
            ..TestRunOptions::default()
        };
        self.run_with(options)
    }

    /// Runs the program on a frame; answers what it sends back, if it does.
    pub fn answer(&self, frame: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut answer = vec![0; frame.len()];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut answer),
            ..TestRunOptions::default()
        };
        let result = self.xdp().test_run(options)?;
        answer.truncate(result.data_size_out.try_into()?);
        Ok((result.return_value == XDP_TX).then_some(answer))
    }

    fn run_with(&self, options: TestRunOptions<'_>) -> Result<Action> {
        const XDP_DROP: u32 = 1;
        const XDP_PASS: u32 = 2;
        const TCX_DROP: u32 = 2;
        const TCX_NEXT: u32 = u32::MAX;
        if self.entry_point == layout::PROGRAM_TCX {
            let program = self.ebpf.program(self.entry_point).expect("it was loaded");
            let program: &SchedClassifier = program.try_into()?;
            return match program.test_run(options)?.return_value {
                TCX_DROP => Ok(Action::Drop),
                TCX_NEXT => Ok(Action::Pass),
                other => anyhow::bail!("the program answered {other}"),
            };
        }
        match self.xdp().test_run(options)?.return_value {
            XDP_DROP => Ok(Action::Drop),
            XDP_PASS => Ok(Action::Pass),
            XDP_TX => Ok(Action::Answer),
            other => anyhow::bail!("the program answered {other}"),
        }
    }

    /// Runs the program at TCX on a frame of this many segments, of so many bytes each.
    pub fn run_merged(&self, frame: &[u8], segments: u32, each: u32) -> Result<Action> {
        // Offsets in `struct __sk_buff` of linux/bpf.h, in words.
        const SEGMENTS: usize = 164 / 4;
        const EACH: usize = 176 / 4;
        let mut context = [0u32; 192 / 4];
        context[SEGMENTS] = segments;
        context[EACH] = each;
        let options = TestRunOptions {
            data_in: Some(frame),
            ctx_in: Some(context.as_bytes()),
            ..TestRunOptions::default()
        };
        self.run_with(options)
    }

    /// The program at TCX, to be attached.
    pub fn tcx_mut(&mut self) -> &mut SchedClassifier {
        let program = self.ebpf.program_mut(layout::PROGRAM_TCX);
        let program = program.expect("it was loaded").try_into();
        program.expect("it was loaded for TCX")
    }

    /// Runs the program on a frame of which the first `first` bytes are in its first buffer.
    /// Kernels before 6.18 refuse to.
    pub fn run_in_buffers(&self, frame: &[u8], first: usize) -> Result<Action> {
        // The kernel requires the length of an Ethernet header in the first buffer; bytes before
        // the frame count.
        const BEFORE: usize = 16;
        let data_in = [&[0; BEFORE], frame].concat();
        // `xdp_md` of linux/bpf.h: data, data_end, data_meta, ingress_ifindex, rx_queue_index,
        // egress_ifindex.
        let context = [
            u32::try_from(BEFORE)?,
            u32::try_from(BEFORE + first)?,
            0,
            0,
            0,
            0,
        ];
        let options = TestRunOptions {
            data_in: Some(&data_in),
            ctx_in: Some(context.as_bytes()),
            ..TestRunOptions::default()
        };
        self.run_with(options)
    }

    /// Runs the program on a frame, and reads from the counters which verdict it was.
    pub fn judge(&self, frame: &[u8]) -> Result<(Family, Verdict)> {
        self.counted(frame, || self.run(frame))
    }

    /// Judges a frame of which this many bytes are in its first buffer.
    pub fn judge_in_buffers(&self, frame: &[u8], first: usize) -> Result<(Family, Verdict)> {
        self.counted(frame, || self.run_in_buffers(frame, first))
    }

    fn counted(
        &self,
        frame: &[u8],
        run: impl FnOnce() -> Result<Action>,
    ) -> Result<(Family, Verdict)> {
        let before = self.counters()?;
        let action = run()?;
        let after = self.counters()?;
        let changed: Vec<_> = before
            .iter()
            .zip(&after)
            .filter(|(old, new)| old != new)
            .collect();
        let [(old, new)] = changed[..] else {
            anyhow::bail!("{} counters changed", changed.len());
        };
        ensure!(
            new.1.packets == old.1.packets + 1,
            "the packet was counted once"
        );
        ensure!(
            new.1.bytes == old.1.bytes + frame.len() as u64,
            "{} bytes of {} were counted",
            new.1.bytes - old.1.bytes,
            frame.len()
        );
        let (family, verdict) = new.0;
        ensure!(
            Action::from(verdict) == action,
            "{verdict:?} became {action:?}"
        );
        Ok((family, verdict))
    }

    /// Sets the time of the following packets.
    pub fn set_clock(&self, now: Instant) -> Result<()> {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(clock.set(0, now.as_nanos(), 0)?)
    }

    /// Sets what holds for all packets.
    pub fn set_settings(&mut self, settings: Settings) -> Result<()> {
        self.require(Features::of_settings(settings))?;
        Ok(self.settings.set(0, settings, 0)?)
    }

    /// A program that lacks a feature would judge by nothing that has to do with it.
    fn require(&self, features: Features) -> Result<()> {
        ensure!(
            self.features.covers(features),
            "the program was loaded with {:?}, and {features:?} is needed",
            self.features
        );
        Ok(())
    }

    /// Sets the end of a time in which everything passes, where the settings say that there is one.
    pub fn set_pass_all_until(&mut self, until: Instant) -> Result<()> {
        Ok(self.ends.set(ends::PASS_ALL, until.as_nanos(), 0)?)
    }

    /// Sets a policy.
    /// Where the store is `compact`, limits without a region get one.
    pub fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<()> {
        self.require(Features::of_policy(policy))?;
        let policy = placed(index, policy, self.store);
        Ok(self.policies.set(index, policy, 0)?)
    }

    /// Sets the array by which the classes of a packet are looked up.
    pub fn set_classes(&mut self, wanted: &ClassTables) -> Result<()> {
        let entries = wanted.entries().iter().zip(self.held_classes.entries());
        for (index, (wanted, held)) in (0..).zip(entries) {
            if wanted != held {
                self.classes.set(index, *wanted, 0)?;
            }
        }
        self.held_classes = wanted.clone();
        Ok(())
    }

    /// Sets the wider prefixes that have limits, of IPv4 and of IPv6.
    pub fn set_aggregates(&mut self, ipv4: Aggregates, ipv6: Aggregates) -> Result<()> {
        self.aggregates.set(0, ByGeneration::both(ipv4), 0)?;
        Ok(self.aggregates.set(1, ByGeneration::both(ipv6), 0)?)
    }

    /// The state of the limits of the node and of destinations, by slot.
    pub fn totals(&self) -> Result<Vec<Record>> {
        let records = (0..TOTALS).map(|slot| self.node.get(&slot, 0));
        Ok(records.collect::<Result<_, _>>()?)
    }

    /// Returns the unspent shares of each CPU for the limits in a slot.
    pub fn shares(&self, place: u32) -> Result<Vec<Shares>> {
        Ok(self.shares.get(&place, 0)?.to_vec())
    }

    /// Sets how many bans policies may make in a minute; without this none.
    pub fn set_ban_budgets(&mut self, limit: BanBudgets) -> Result<()> {
        Ok(self.ban_budgets.set(0, limit, 0)?)
    }

    /// Takes a ban of the minute as the daemon does.
    pub fn take_ban(&self, budgets: BanBudgets, evidence: Evidence, now: Instant) -> bool {
        let mut rings = self.ban_rings.words().chunks_exact(SLOTS as usize);
        let ring = rings.nth(evidence as usize).expect("there are two");
        budgets.of(evidence).take(&AtomicRing(ring), now)
    }

    /// Sets how many sources may get state.
    pub fn set_new_sources(&mut self, budget: Budget) -> Result<()> {
        Ok(self.new_sources.set(0, ByGeneration::both(budget), 0)?)
    }

    /// Sets when sources are challenged.
    pub fn set_challenge(&mut self, rules: challenge::Rules) -> Result<()> {
        Ok(self.challenge.set(0, ByGeneration::both(rules), 0)?)
    }

    /// Returns the used part of the budgets for new sources and for their overflow buckets, and the
    /// unspent shares of a CPU.
    pub fn budgets(&self, cpu: usize) -> Result<(UsedBudgets, BudgetShares)> {
        let shares = self.new_sources_shares.get(&0, 0)?;
        Ok((self.new_sources_taken.get(&0, 0)?, shares[cpu]))
    }

    /// The words of each CPU's budget of neighbour discovery.
    pub fn discovered(&self) -> Result<Vec<u64>> {
        Ok(self.discovered.get(&0, 0)?.to_vec())
    }

    /// Sets the word of each CPU's budget of neighbour discovery.
    pub fn set_discovered(&mut self, word: u64) -> Result<()> {
        let words = vec![word; self.discovered()?.len()];
        Ok(self.discovered.set(0, PerCpuValues::try_from(words)?, 0)?)
    }

    /// The outcomes for sources that policies were to ban, summed over all CPUs.
    pub fn tally(&self) -> Result<Tally> {
        let mut sum = Tally::default();
        for cpu in self.tally.get(&0, 0)?.iter() {
            sum.events_lost += cpu.events_lost;
            for (sum, count) in sum.results.iter_mut().zip(cpu.results) {
                *sum += count;
            }
        }
        Ok(sum)
    }

    /// The words of every sliding log.
    pub fn logs(&self) -> Result<Vec<(LogKey, Vec<u64>)>> {
        let logs = self
            .logs
            .iter()
            .map(|log| log.map(|(key, words)| (key, words.to_vec())));
        Ok(logs.collect::<Result<_, _>>()?)
    }

    /// Empties the lists, and forgets what was used of all limits.
    pub fn clear(&mut self) -> Result<()> {
        self.ipv4.clear()?;
        self.ipv6.clear()?;
        for key in self.logs.keys().collect::<Result<Vec<_>, _>>()? {
            self.logs.remove(&key)?;
        }
        for index in 0..TOTALS {
            self.node.set(index, Record::default(), 0)?;
        }
        for family in [0, 1] {
            self.filter.set(family, Filter::CLEAR, 0)?;
        }
        for word in self.ban_rings.words() {
            word.store(0, Relaxed);
        }
        let cpus = self.shares(0)?.len();
        let uncounted = PerCpuValues::try_from(vec![Tally::default(); cpus])?;
        self.tally.set(0, uncounted, 0)?;
        for slot in 0..random::SLOTS {
            let empty = PerCpuValues::try_from(vec![Counter::default(); cpus])?;
            self.entry_counters.set(slot.into(), empty, 0)?;
        }
        self.set_discovered(0)?;
        let undrawn = PerCpuValues::try_from(vec![BudgetShares::default(); cpus])?;
        self.new_sources_shares.set(0, undrawn, 0)?;
        self.new_sources_taken.set(0, UsedBudgets::default(), 0)?;
        let undrawn = PerCpuValues::try_from(vec![CpuState::new_zeroed(); cpus])?;
        self.cpu_state.set(0, undrawn, 0)?;
        self.challenge_taken
            .set(0, challenge::SharedState::default(), 0)?;
        for word in self.answered.words() {
            word.store(0, Relaxed);
        }
        for place in 0..TOTALS {
            let unspent = PerCpuValues::try_from(vec![Shares::default(); cpus])?;
            self.shares.set(place, unspent, 0)?;
        }
        Ok(())
    }

    /// Sets what the lists say about the addresses of `prefix` that no longer prefix matches.
    pub fn set_list_entry(&mut self, prefix: Prefix, entry: ListEntry) -> Result<()> {
        let length = prefix.len();
        match prefix.address() {
            IpAddr::V4(address) => self.ipv4.set_list_entry(address.into(), length, entry),
            IpAddr::V6(address) => self.ipv6.set_list_entry(address.into(), length, entry),
        }
    }

    /// The same for a prefix that has its bits of the prefix-length filter, and lets the CPUs cache
    /// what the lists said before.
    pub fn set_list_entry_unnoticed(&mut self, prefix: Prefix, entry: ListEntry) -> Result<()> {
        let (length, ipv4, ipv6) = (prefix.len(), &mut self.ipv4, &mut self.ipv6);
        match prefix.address() {
            IpAddr::V4(address) => ipv4.set_list_entry_unnoticed(address.into(), length, entry),
            IpAddr::V6(address) => ipv6.set_list_entry_unnoticed(address.into(), length, entry),
        }
    }

    /// The counters of every family and verdict, summed over the CPUs.
    pub fn counters(&self) -> Result<Vec<((Family, Verdict), Counter)>> {
        let first = layout::first_counter(self.interface);
        let labels: Vec<_> = labels().collect();
        let counters = self.counters.read(first, u32::try_from(labels.len())?)?;
        Ok(labels.into_iter().zip(counters).collect())
    }

    /// The packets of `family` that got `verdict`.
    pub fn counter(&self, family: Family, verdict: Verdict) -> Result<Counter> {
        let index = counter_index(self.interface, family, verdict);
        let counters = self.counters.read(index, 1)?;
        Ok(counters[0])
    }

    /// The packets that matched what a slot counts for.
    pub fn entry_counter(&self, slot: u16) -> Result<Counter> {
        let by_cpu = self.entry_counters.get(&slot.into(), 0)?;
        Ok(by_cpu
            .iter()
            .copied()
            .fold(Counter::default(), Counter::plus))
    }

    /// The number of sources of `family` that got state.
    pub fn inserted(&self, family: Family) -> Result<u64> {
        Ok(self.inserted.get(&(family as u32), 0)?.iter().sum())
    }

    /// The event counters of every CPU.
    pub fn samplers(&self) -> Result<Vec<Sampler>> {
        Ok(self.samplers.get(&0, 0)?.to_vec())
    }

    /// The ring of events; to be taken once.
    pub fn take_events(&mut self) -> Result<Events> {
        Ok(Events(take_map(&mut self.ebpf, "EVENTS")?.try_into()?))
    }
}

/// The events that were not read yet.
pub struct Events(RingBuf<MapData>);

impl Events {
    /// Reads all that are about drops.
    pub fn drain(&mut self) -> Vec<DropEvent> {
        self.drain_all().0
    }

    /// Reads all of them: drops, and bans of policies.
    pub fn drain_all(&mut self) -> (Vec<DropEvent>, Vec<BanEvent>) {
        let (mut drops, mut bans) = (vec![], vec![]);
        while let Some(item) = self.0.next() {
            if let Ok(ban) = BanEvent::read_from_bytes(&item) {
                bans.push(ban);
            } else {
                let drop = DropEvent::read_from_bytes(&item);
                drops.push(drop.expect("there are two kinds"));
            }
        }
        (drops, bans)
    }
}

/// Every family with every verdict.
pub fn labels() -> impl Iterator<Item = (Family, Verdict)> {
    let with = |family| Verdict::all().map(move |verdict| (family, verdict));
    Family::ALL.into_iter().flat_map(with)
}

/// The verdict on a packet within its limits.
pub const CONFORMING: Verdict = Verdict::Pass(PassReason::Conforming);
/// The verdict on a packet over its limits.
pub const LIMITED: Verdict = Verdict::Drop(DropReason::Limited);
