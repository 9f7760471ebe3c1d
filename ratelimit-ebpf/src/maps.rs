//! The BPF maps, each with what it maps.
//!
//! User space finds them by the names of these statics, and sets the sizes that depend on the configuration.

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf},
    macros::{btf_map, map},
    maps as untyped,
};
use ratelimit_common::{
    Address, ClassSet, Detected, Ipv4, Ipv6, ListEntry, Policy, Record, Settings, SourceKey,
    Strikes,
    aggregate::Aggregates,
    algorithm::FixedWindow,
    class::{KINDS, PORTS},
    detected::{Filter, Tally},
    event::Sampler,
    guard::Guard,
    layout::{
        ADDRESSES_MAX, COUNTERS, Counter, DETECTED_MAX, EVENTS_BYTES, LOG_TIMES, NODE_POLICIES,
        POLICIES_MAX, PREFIXES_MAX, SAMPLES_BYTES, SOURCES_DEFAULT, STRIKES_MAX,
    },
    node::Shares,
    sample::Countdown,
    source::LogKey,
};

/// Memory for an element is taken when it is inserted: most lists are far smaller than the largest.
const ON_DEMAND: usize = BPF_F_NO_PREALLOC as usize;

type Addresses<A> = HashMap<A, ListEntry, { ADDRESSES_MAX as usize }, ON_DEMAND>;
type Prefixes<A> = LpmTrie<A, ListEntry, { PREFIXES_MAX as usize }, ON_DEMAND>;
type Sources<A> = LruHashMap<SourceKey<A>, Record, { SOURCES_DEFAULT as usize }>;
type DetectedBySource<A> = HashMap<A, Detected, { DETECTED_MAX as usize }, ON_DEMAND>;
type StrikesBySource<A> = LruHashMap<A, Strikes, { STRIKES_MAX as usize }>;

/// Index 0 → what holds for all packets.
#[btf_map]
pub static SETTINGS: Array<Settings, 1> = Array::new();

/// Policy index → its limits.
#[btf_map]
pub static POLICIES: Array<Policy, { POLICIES_MAX as usize }> = Array::new();

/// Kind, source port, destination port → the classes that a packet may belong to.
#[btf_map]
pub static CLASSES_BY_KIND: Array<ClassSet, { KINDS as usize }> = Array::new();
#[btf_map]
pub static CLASSES_FROM_PORT: Array<ClassSet, { PORTS as usize }> = Array::new();
#[btf_map]
pub static CLASSES_TO_PORT: Array<ClassSet, { PORTS as usize }> = Array::new();

/// Index of a family → the wider prefixes that have limits.
#[btf_map]
pub static AGGREGATES: Array<Aggregates, 2> = Array::new();

/// Scope of a policy of the node, modulo its entries → the state of its limits.
#[btf_map]
pub static NODE: Array<Record, { NODE_POLICIES as usize }> = Array::new();

/// Index 0 → what this CPU has drawn of the node's limits.
#[btf_map]
pub static NODE_SHARES: PerCpuArray<Shares, 1> = PerCpuArray::new();

/// The words of a sliding log: its head, and its times.
pub type LogWords = [u64; LOG_TIMES as usize + 1];

/// Source, scope and limit → the ring of a sliding log. User space makes it with as many words and entries as the limits
/// need, which is why it has no BTF type: that would fix the words.
#[map]
pub static LOGS: untyped::LruHashMap<LogKey, LogWords> =
    untyped::LruHashMap::with_max_entries(1, 0);

/// Index 0 → an empty ring.
#[map]
pub static EMPTY_LOG: untyped::Array<LogWords> = untyped::Array::with_max_entries(1, 0);

/// Index 0 → the bits that say where list entries are.
#[btf_map]
static GUARD_V4: Array<Guard, 1> = Array::new();
#[btf_map]
static GUARD_V6: Array<Guard, 1> = Array::new();

/// Address → its list entry.
#[btf_map]
static ADDRESSES_V4: Addresses<Ipv4> = HashMap::new();
#[btf_map]
static ADDRESSES_V6: Addresses<Ipv6> = HashMap::new();

/// Prefix → its list entry.
#[btf_map]
static PREFIXES_V4: Prefixes<Ipv4> = LpmTrie::new();
#[btf_map]
static PREFIXES_V6: Prefixes<Ipv6> = LpmTrie::new();

/// Source and scope → the state of its limits.
#[btf_map]
static SOURCES_V4: Sources<Ipv4> = LruHashMap::new();
#[btf_map]
static SOURCES_V6: Sources<Ipv6> = LruHashMap::new();

/// Index 0 → the state of a source that has used nothing: an element is copied from somewhere, and the stack is short.
#[btf_map]
pub static EMPTY_RECORD: Array<Record, 1> = Array::new();

/// Index of a family → sources that got state, on this CPU. What exceeds the sources that have state was evicted.
#[btf_map]
pub static INSERTED: PerCpuArray<u64, 2> = PerCpuArray::new();

/// Source → how often it was refused. Only sources that are refused enter, so a forged flood does not churn it.
#[btf_map]
static STRIKES_V4: StrikesBySource<Ipv4> = LruHashMap::new();
#[btf_map]
static STRIKES_V6: StrikesBySource<Ipv6> = LruHashMap::new();

/// Index 0 → the strikes of a source that had none.
#[btf_map]
pub static EMPTY_STRIKES: Array<Strikes, 1> = Array::new();

/// Source → the ban that a policy made of it, until user space takes it over.
#[btf_map]
static DETECTED_V4: DetectedBySource<Ipv4> = HashMap::new();
#[btf_map]
static DETECTED_V6: DetectedBySource<Ipv6> = HashMap::new();

/// Index of a family → the bits that say where such bans may be.
#[btf_map]
pub static DETECTED_FILTER: Array<Filter, 2> = Array::new();

/// Index 0 → how many such bans there may be.
#[btf_map]
pub static DETECTION_LIMIT: Array<FixedWindow, 1> = Array::new();

/// Index 0 → how many there were.
#[btf_map]
pub static DETECTION_WORD: Array<u64, 1> = Array::new();

/// Index 0 → what became of them, on this CPU.
#[btf_map]
pub static DETECTIONS: PerCpuArray<Tally, 1> = PerCpuArray::new();

/// Interface, family and verdict → packets and bytes.
#[btf_map]
pub static VERDICTS: PerCpuArray<Counter, { COUNTERS as usize }> = PerCpuArray::new();

/// A sample of the drops, as `DropEvent`, and the bans of policies, as `BanEvent`.
#[btf_map]
pub static EVENTS: RingBuf<(), { EVENTS_BYTES as usize }> = RingBuf::new();

/// Index 0 → when this CPU may send an event again.
#[btf_map]
pub static SAMPLER: PerCpuArray<Sampler, 1> = PerCpuArray::new();

/// A sample of all packets, as `Front`.
#[btf_map]
pub static SAMPLES: RingBuf<(), { SAMPLES_BYTES as usize }> = RingBuf::new();

/// Index 0 → when this CPU looks at a packet again.
#[btf_map]
pub static COUNTDOWN: PerCpuArray<Countdown, 1> = PerCpuArray::new();

/// Index 0 → the time in nanoseconds, for tests that choose it.
#[btf_map]
pub static MANUAL_CLOCK: Array<u64, 1> = Array::new();

/// The maps of an address family.
pub trait FamilyMaps: Address {
    const GUARD: &'static Array<Guard, 1>;
    const ADDRESSES: &'static Addresses<Self>;
    const PREFIXES: &'static Prefixes<Self>;
    const SOURCES: &'static Sources<Self>;
    const STRIKES: &'static StrikesBySource<Self>;
    const DETECTED: &'static DetectedBySource<Self>;
    /// The length of an address in bits.
    const BITS: u32;
}

impl FamilyMaps for Ipv4 {
    const GUARD: &'static Array<Guard, 1> = &GUARD_V4;
    const ADDRESSES: &'static Addresses<Self> = &ADDRESSES_V4;
    const PREFIXES: &'static Prefixes<Self> = &PREFIXES_V4;
    const SOURCES: &'static Sources<Self> = &SOURCES_V4;
    const STRIKES: &'static StrikesBySource<Self> = &STRIKES_V4;
    const DETECTED: &'static DetectedBySource<Self> = &DETECTED_V4;
    const BITS: u32 = 32;
}

impl FamilyMaps for Ipv6 {
    const GUARD: &'static Array<Guard, 1> = &GUARD_V6;
    const ADDRESSES: &'static Addresses<Self> = &ADDRESSES_V6;
    const PREFIXES: &'static Prefixes<Self> = &PREFIXES_V6;
    const SOURCES: &'static Sources<Self> = &SOURCES_V6;
    const STRIKES: &'static StrikesBySource<Self> = &STRIKES_V6;
    const DETECTED: &'static DetectedBySource<Self> = &DETECTED_V6;
    const BITS: u32 = 128;
}
