//! The BPF maps, each with what it maps.
//!
//! User space finds them by the names of these statics, and sets the sizes that depend on the
//! configuration.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC},
    btf_maps::{Array, HashMap, LruHashMap, PerCpuArray, ProgramArray, RingBuf},
    macros::{btf_map, map},
    maps as untyped,
};
use ratelimit_common::{
    Address, BanBudgets, ClassSet, Evidence, Ipv4, Ipv6, ListEntry, Policy, PolicyBan, Record,
    Settings, SourceKey,
    aggregate::Aggregates,
    ban_budget,
    capture::{self, Capture, Room},
    challenge::{self, answer_limit::ANSWER_BUCKETS},
    charge::Steps,
    class::Property,
    compact::Set,
    cpu_state::CpuState,
    direct::Direct,
    event::Sampler,
    generation::ByGeneration,
    interface::InterfaceRule,
    layout::{
        CAPTURED_BYTES, COUNTERS, Counter, DEMANDS_MAX, EVENTS_BYTES, FILTERS_MAX, FRONT_COPIED,
        INTERFACES_MAX, LEASED_MAX, LEASES_MAX, LISTED_MAX, LOG_TIMES, POLICIES_MAX,
        POLICY_BANS_MAX, SAMPLES_BYTES, SHARED_MAX, SLOTS_MAX, SOURCES_DEFAULT, STRIKES_MAX,
        TOTALS_MAX, VERIFIED_MAX, ends,
    },
    lease::{Demand, Lease},
    list::{PrefixKey, lookup_cache::Cached},
    new_sources::{Budget, BudgetShares, UsedBudgets},
    node::Shares,
    parse::{Tunnels, ipv6::EXTENSION_HEADERS_MAX},
    policy_ban::Tally,
    refused::{Refused, SETS, WAYS},
    sample::Countdown,
    source::LogKey,
    source_filter::Filter,
};
use zerocopy::FromBytes;

use crate::{constant::Constant, interruption::Claimed, single::Single};

/// Memory for an element is taken when it is inserted: most lists are far smaller than the largest.
const ON_DEMAND: usize = BPF_F_NO_PREALLOC as usize;

/// User space may read and write where the program does, without a system call. It begins at a
/// page.
const MAPPED: usize = BPF_F_MMAPABLE as usize;

type Lists<A> = HashMap<PrefixKey<A>, ByGeneration<ListEntry>, { LISTED_MAX as usize }, ON_DEMAND>;
type Sources<A> = LruHashMap<SourceKey<A>, Record, { SOURCES_DEFAULT as usize }>;
type Compact = Array<Set, 1, MAPPED>;
type PolicyBansBySource<A> = HashMap<A, PolicyBan, { POLICY_BANS_MAX as usize }, ON_DEMAND>;
type RefusedSources<A> = Array<[Refused<A>; WAYS], { SETS as usize }, MAPPED>;
type StrikesBySource<A> = LruHashMap<A, u64, { STRIKES_MAX as usize }>;
type VerifiedSources<A> = LruHashMap<A, u64, { VERIFIED_MAX as usize }>;
type LookupCache = PerCpuArray<Cached, 1>;

/// The longest extension header, and more than any header that is taken.
const EXTENSION_BYTES_MAX: usize = 256 * 8 + 4;

/// The copied beginning of a frame, followed by unused room. For memory other than a packet, the
/// verifier learns nothing from the comparison with its end, so everything that a cursor can reach
/// must exist.
#[repr(C)]
pub struct Front {
    pub bytes: u64,
    pub copied: [u8; 2 * FRONT_COPIED as usize],
    room: [u8; EXTENSION_HEADERS_MAX * EXTENSION_BYTES_MAX + 64],
}

/// Index 0 → what holds for all packets.
pub const SETTINGS: Single<Settings, { Direct::Settings as u8 }> = Single::new();

/// Index 0 → what the program keeps for this CPU.
#[btf_map]
pub static OF_CPU: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// Policy index → its limits. The policies of leases come after those of the lists and settings.
#[btf_map]
pub static POLICIES: Array<Policy, { (POLICIES_MAX + LEASED_MAX) as usize }, MAPPED> = Array::new();

/// Index of `layout::ends` → the end. The first one, of pass-all, counts only if the settings
/// enable it.
#[btf_map]
pub static ENDS: Array<u64, { ends::COUNT as usize }> = Array::new();

/// Value of a property → the classes that packets with it do not belong to.
#[btf_map]
pub static EXCLUDED_CLASSES: Array<ClassSet, { Property::ENTRIES as usize }> = Array::new();

/// Index of a family → the wider prefixes that have limits.
#[btf_map]
pub static AGGREGATES: Array<ByGeneration<Aggregates>, 2> = Array::new();

/// Slot of a policy of the node, or of a destination → the state of its limits.
#[btf_map]
pub static NODE: Array<Record, { TOTALS_MAX as usize }> = Array::new();

/// Place of the shares of a policy → what this CPU has drawn of its limits.
#[btf_map]
pub static NODE_SHARES: PerCpuArray<Shares, { SHARED_MAX as usize }> = PerCpuArray::new();

/// The words of the filter of IPv4.
type FilterV4 = [u64; Ipv4::LEVELS.words() as usize];

/// The words of a sliding log: its head, and its times.
pub type LogWords = [u64; LOG_TIMES as usize + 1];

/// Source, scope and limit → the ring of a sliding log. User space makes it with as many words and
/// entries as the limits need, which is why it has no BTF type: that would fix the words.
#[map]
pub static LOGS: untyped::LruHashMap<LogKey, LogWords> =
    untyped::LruHashMap::with_max_entries(1, 0);

/// Index 0 → an empty ring.
#[map]
pub static EMPTY_LOG: untyped::Array<LogWords> = untyped::Array::with_max_entries(1, 0);

/// Source and scope → its leased policies, if the nodes of a cluster share the limits.
#[btf_map]
pub static LEASES: HashMap<LogKey, Lease, { LEASES_MAX as usize }, ON_DEMAND> = HashMap::new();

/// Source and scope → its demand for such limits. Counted only for sources that were refused or
/// have a lease.
#[btf_map]
pub static DEMANDS: LruHashMap<LogKey, Demand, { DEMANDS_MAX as usize }> = LruHashMap::new();

/// Index of a network → which prefixes may be listed around its addresses.
const FILTER_V4: Single<FilterV4, { Direct::FilterV4 as u8 }> = Single::new();
#[btf_map]
static FILTER_V6: Array<u64, { Ipv6::LEVELS.words() as usize }, MAPPED> = Array::new();

/// Prefix → its list entry.
#[btf_map]
static LISTS_V4: Lists<Ipv4> = HashMap::new();
#[btf_map]
static LISTS_V6: Lists<Ipv6> = HashMap::new();

/// Index 0 → what the lists said of prefixes, and the policies of destinations, as this CPU caches
/// them.
#[btf_map]
static LOOKUP_CACHE_V4: LookupCache = PerCpuArray::new();
#[btf_map]
static LOOKUP_CACHE_V6: LookupCache = PerCpuArray::new();

/// Source and scope → the state of its limits.
#[btf_map]
static SOURCES_V4: Sources<Ipv4> = LruHashMap::new();
#[btf_map]
static SOURCES_V6: Sources<Ipv6> = LruHashMap::new();

/// Index of a set → its slots, where the store is `compact`.
#[btf_map]
static COMPACT_V4: Compact = Array::new();
#[btf_map]
static COMPACT_V6: Compact = Array::new();

/// Index 0 and 1 → the seeds of the tags, for the daemon alone: they must outlive it as long as the
/// tags.
#[btf_map]
pub static COMPACT_SEEDS: Array<u64, 2> = Array::new();

/// Zeros for the largest element that the program inserts.
type Zeros = Demand;

/// Index 0 → zeros: a new element is copied from somewhere, and the stack is short.
const EMPTY: Single<Zeros, { Direct::Empty as u8 }> = Single::new();

/// A new element, all zeros.
#[inline(always)]
pub fn empty<T: FromBytes>() -> &'static T {
    const {
        assert!(size_of::<T>() <= size_of::<Zeros>() && align_of::<T>() <= align_of::<Zeros>());
    }
    // SAFETY: the value is at least as long and as aligned as a `T`, any bytes are valid, and they
    // are never written.
    unsafe { &*EMPTY.as_ptr().cast() }
}

/// Index of a family → sources that got state, on this CPU. Evicted sources have no state any more.
#[btf_map]
pub static INSERTED: PerCpuArray<u64, 2> = PerCpuArray::new();

/// CPU and index of a set → sources that were refused, and how often.
#[btf_map]
static REFUSED_V4: RefusedSources<Ipv4> = Array::new();
#[btf_map]
static REFUSED_V6: RefusedSources<Ipv6> = Array::new();

/// Source → its strikes, as a word of `BanRule`. Only sources that are refused enter, so a forged
/// flood does not churn it.
#[btf_map]
static STRIKES_V4: StrikesBySource<Ipv4> = LruHashMap::new();
#[btf_map]
static STRIKES_V6: StrikesBySource<Ipv6> = LruHashMap::new();

/// Source → the ban that a policy made of it, until user space takes it over.
#[btf_map]
static POLICY_BANS_V4: PolicyBansBySource<Ipv4> = HashMap::new();
#[btf_map]
static POLICY_BANS_V6: PolicyBansBySource<Ipv6> = HashMap::new();

/// Index of a family → the bits that say where such bans may be. Behind both families: where leases
/// and demands may be. A program has 64 maps at most.
#[btf_map]
pub static FILTERS: Array<Filter, { FILTERS_MAX as usize }> = Array::new();

/// Index 0 → how many bans policies may make in a minute.
pub const BAN_BUDGETS: Single<BanBudgets, { Direct::BanBudgets as u8 }> = Single::new();

/// The bans of the last slots of time.
pub type BanWords = [u64; ban_budget::SLOTS as usize];

/// Evidence → the ring of the bans with it. User space takes its own bans from it as well.
#[btf_map]
pub static BAN_RING: Array<BanWords, { Evidence::COUNT }, MAPPED> = Array::new();

/// Index 0 → results of bans, on this CPU.
#[btf_map]
pub static BAN_RESULTS: PerCpuArray<Tally, 1> = PerCpuArray::new();

/// Index 0 → how many sources may get state.
pub const NEW_SOURCES: Single<ByGeneration<Budget>, { Direct::NewSources as u8 }> = Single::new();

/// Index 0 → how many sources, and how many overflow buckets, there were.
pub const NEW_SOURCES_TAKEN: Single<UsedBudgets, { Direct::NewSourcesTaken as u8 }> = Single::new();

/// Index 0 → what this CPU has drawn of either.
#[btf_map]
pub static NEW_SOURCES_SHARES: PerCpuArray<BudgetShares, 1> = PerCpuArray::new();

/// The slot of an interface → what it has of its own.
#[btf_map]
pub static INTERFACES: Array<ByGeneration<InterfaceRule>, { INTERFACES_MAX as usize }> =
    Array::new();

/// The slot of an interface → the program that gets what passes there.
pub type Next = ProgramArray<{ INTERFACES_MAX as usize }>;

/// The next programs for frames in one buffer.
#[btf_map]
pub static NEXT: Next = Next::new();

/// The next programs for frames in several buffers: a program can only call others of the same
/// kind.
#[btf_map]
pub static NEXT_FRAGS: Next = Next::new();

/// Index 0 → when sources are challenged, and how much is answered.
pub const CHALLENGE: Single<ByGeneration<challenge::Rules>, { Direct::Challenge as u8 }> =
    Single::new();

/// Index 0 and 1 → what cookies are keyed with. It outlives the daemon.
#[btf_map]
pub static CHALLENGE_KEY: Array<u64, 2> = Array::new();

/// Index 0 → when the challenge began and ends, and the used parts of its budgets on all CPUs.
pub const CHALLENGE_TAKEN: Single<challenge::SharedState, { Direct::ChallengeTaken as u8 }> =
    Single::new();

/// A number of a source → answers that it was sent, as a word of a window of a second.
#[btf_map]
pub static ANSWERED: Array<u64, { ANSWER_BUCKETS as usize }, MAPPED> = Array::new();

/// Source → expiry of its verification.
#[btf_map]
static VERIFIED_V4: VerifiedSources<Ipv4> = LruHashMap::new();
#[btf_map]
static VERIFIED_V6: VerifiedSources<Ipv6> = LruHashMap::new();

/// Index 0 → how much neighbour discovery there was on this CPU.
#[btf_map]
pub static NEIGHBOUR_DISCOVERY: PerCpuArray<u64, 1> = PerCpuArray::new();

/// Index 0 → what the check of several limits has worked out on this CPU.
#[btf_map]
pub static STEPS: PerCpuArray<Claimed<Steps>, 1> = PerCpuArray::new();

/// Interface, family and verdict → packets and bytes.
#[btf_map]
pub static VERDICTS: PerCpuArray<Counter, { COUNTERS as usize }> = PerCpuArray::new();

/// Slot → packets and bytes that matched what it counts for.
#[btf_map]
pub static ENTRY_COUNTERS: PerCpuArray<Counter, { SLOTS_MAX as usize }> = PerCpuArray::new();

/// Slot → what it counts for, as a hash with the seed that the first element has, for the daemon
/// alone: it must outlive it as long as the counts.
#[btf_map]
pub static COUNTER_OWNERS: Array<u64, { SLOTS_MAX as usize }> = Array::new();

/// A sample of the drops, as `DropEvent`, and the bans of policies, as `BanEvent`.
#[btf_map]
pub static EVENTS: RingBuf<(), { EVENTS_BYTES as usize }> = RingBuf::new();

/// Index 0 → when this CPU may send an event again.
#[btf_map]
pub static SAMPLER: PerCpuArray<Sampler, 1> = PerCpuArray::new();

/// Index 0 → which dropped packets are captured.
pub const CAPTURE: Single<Capture, { Direct::Capture as u8 }> = Single::new();

/// Interface → how many there were, on this CPU.
#[btf_map]
pub static CAPTURE_TALLY: PerCpuArray<capture::Tally, { INTERFACES_MAX as usize }> =
    PerCpuArray::new();

/// Index 0 → where a packet is put together: the ring takes what is as long as it likes only from a
/// map or the stack.
#[btf_map]
pub static CAPTURE_ROOM: PerCpuArray<Claimed<Room>, 1> = PerCpuArray::new();

/// Index 0 → the front of a frame whose first buffer is short.
#[btf_map]
pub static FRONT: PerCpuArray<Front, 1> = PerCpuArray::new();

/// The packets, each as `Head` and its bytes.
#[btf_map]
pub static CAPTURED: RingBuf<(), { CAPTURED_BYTES as usize }> = RingBuf::new();

/// A sample of all packets, as `Front`.
#[btf_map]
pub static SAMPLES: RingBuf<(), { SAMPLES_BYTES as usize }> = RingBuf::new();

/// Index 0 → when this CPU looks at a packet again.
#[btf_map]
pub static COUNTDOWN: PerCpuArray<Countdown, 1> = PerCpuArray::new();

/// Index 0 → the time in nanoseconds, for tests that choose it.
pub const MANUAL_CLOCK: Single<u64, { Direct::ManualClock as u8 }> = Single::new();

/// Index 0 → the tunnels that are looked into, in each generation.
pub const TUNNELS: Single<ByGeneration<Tunnels>, { Direct::Tunnels as u8 }> = Single::new();

/// The bits of an address that make it a source, in network order. Words, as addresses would be
/// read byte by byte.
#[unsafe(no_mangle)]
static SOURCE_MASK_V4: Constant<u32> = Constant::new(u32::MAX);
#[unsafe(no_mangle)]
static SOURCE_MASK_V6: Constant<[u64; 2]> = Constant::new([u64::MAX, 0]);

pub trait FamilyMaps: Address {
    const LISTS: &'static Lists<Self>;
    const SOURCES: &'static Sources<Self>;
    const COMPACT: &'static Compact;
    const REFUSED: &'static RefusedSources<Self>;
    const STRIKES: &'static StrikesBySource<Self>;
    const POLICY_BANS: &'static PolicyBansBySource<Self>;
    const LOOKUP_CACHE: &'static LookupCache;
    const VERIFIED: &'static VerifiedSources<Self>;
    /// A word of the prefix-length filter in front of the lists.
    fn filter_word(index: u32) -> Option<&'static u64>;
    /// A word of the prefix-length filter, for writing.
    fn filter_word_mut(index: u32) -> Option<*mut u64>;
    fn source_mask() -> Self;
}

impl FamilyMaps for Ipv4 {
    const LISTS: &'static Lists<Self> = &LISTS_V4;
    const SOURCES: &'static Sources<Self> = &SOURCES_V4;
    const COMPACT: &'static Compact = &COMPACT_V4;
    const REFUSED: &'static RefusedSources<Self> = &REFUSED_V4;
    const STRIKES: &'static StrikesBySource<Self> = &STRIKES_V4;
    const POLICY_BANS: &'static PolicyBansBySource<Self> = &POLICY_BANS_V4;
    const LOOKUP_CACHE: &'static LookupCache = &LOOKUP_CACHE_V4;
    const VERIFIED: &'static VerifiedSources<Self> = &VERIFIED_V4;

    #[inline(always)]
    fn filter_word(index: u32) -> Option<&'static u64> {
        FILTER_V4.get().get(index as usize)
    }

    #[inline(always)]
    fn filter_word_mut(index: u32) -> Option<*mut u64> {
        let words = FILTER_V4.as_ptr().cast::<u64>();
        // SAFETY: the index is below the number of words.
        (index < Ipv4::LEVELS.words()).then(|| unsafe { words.add(index as usize) })
    }

    #[inline(always)]
    fn source_mask() -> Self {
        Self::new(SOURCE_MASK_V4.get().to_ne_bytes())
    }
}

impl FamilyMaps for Ipv6 {
    const LISTS: &'static Lists<Self> = &LISTS_V6;
    const SOURCES: &'static Sources<Self> = &SOURCES_V6;
    const COMPACT: &'static Compact = &COMPACT_V6;
    const REFUSED: &'static RefusedSources<Self> = &REFUSED_V6;
    const STRIKES: &'static StrikesBySource<Self> = &STRIKES_V6;
    const POLICY_BANS: &'static PolicyBansBySource<Self> = &POLICY_BANS_V6;
    const LOOKUP_CACHE: &'static LookupCache = &LOOKUP_CACHE_V6;
    const VERIFIED: &'static VerifiedSources<Self> = &VERIFIED_V6;

    #[inline(always)]
    fn filter_word(index: u32) -> Option<&'static u64> {
        FILTER_V6.get(index)
    }

    #[inline(always)]
    fn filter_word_mut(index: u32) -> Option<*mut u64> {
        FILTER_V6.get_ptr_mut(index)
    }

    #[inline(always)]
    fn source_mask() -> Self {
        Self::of_words(SOURCE_MASK_V6.get())
    }
}

/// The maps behind [`Single`], by the names that user space finds them by.
mod single_maps {
    use super::*;

    #[btf_map]
    static SETTINGS: Array<Settings, 1> = Array::new();
    #[btf_map]
    static FILTER_V4: Array<FilterV4, 1, MAPPED> = Array::new();
    #[btf_map]
    static EMPTY: Array<Zeros, 1> = Array::new();
    #[btf_map]
    static BAN_BUDGETS: Array<BanBudgets, 1> = Array::new();
    #[btf_map]
    static NEW_SOURCES: Array<ByGeneration<Budget>, 1> = Array::new();
    #[btf_map]
    static NEW_SOURCES_TAKEN: Array<UsedBudgets, 1> = Array::new();
    #[btf_map]
    static CHALLENGE: Array<ByGeneration<challenge::Rules>, 1> = Array::new();
    #[btf_map]
    static CHALLENGE_TAKEN: Array<challenge::SharedState, 1> = Array::new();
    #[btf_map]
    static CAPTURE: Array<Capture, 1> = Array::new();
    #[btf_map]
    static MANUAL_CLOCK: Array<u64, 1> = Array::new();
    #[btf_map]
    static TUNNELS: Array<ByGeneration<Tunnels>, 1> = Array::new();
}
