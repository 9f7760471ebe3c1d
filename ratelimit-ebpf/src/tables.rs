//! The tables of the pipeline, in BPF maps.

use aya_ebpf::{bindings::BPF_NOEXIST, btf_maps::lpm_trie};
use ratelimit_common::{
    Family, Instant, Ipv4, Ipv6, ListEntry, Policy, Record, Settings, SourceKey, Strikes, Tables,
    Verdict,
    charge::{Refusal, Words},
    layout::counter_index,
    policy::LIMITS_MAX,
    tables::{FamilyTables, InsertError},
};

use crate::{
    atomic,
    constant::Constant,
    events,
    maps::{FamilyMaps, INSERTED, POLICIES, SETTINGS, VERDICTS},
};

/// The slot of the interface that this instance of the program is attached to.
#[unsafe(no_mangle)]
static INTERFACE: Constant<u32> = Constant::new(0);

/// The bits of an address that make it a source.
#[unsafe(no_mangle)]
static SOURCE_MASK_V4: Constant<Ipv4> = Constant::new(Ipv4::new([0xff; 4]));
#[unsafe(no_mangle)]
static SOURCE_MASK_V6: Constant<Ipv6> = Constant::new(Ipv6::new([
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
]));

/// The maps, as they are for one packet.
pub struct KernelTables {
    now: Instant,
}

impl KernelTables {
    /// The tables for a packet at `now`.
    #[inline(always)]
    pub const fn new(now: Instant) -> Self {
        Self { now }
    }
}

impl Tables for KernelTables {
    #[inline(always)]
    fn settings(&self) -> Settings {
        SETTINGS.get(0).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn policy(&self, index: u32) -> Option<&Policy> {
        POLICIES.get(index)
    }

    #[inline(always)]
    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32) {
        if let Some(counter) = VERDICTS.get_ptr_mut(counter_index(INTERFACE.get(), family, verdict))
        {
            // SAFETY: the counter belongs to this CPU, and XDP programs do not interrupt each other on one.
            let counter = unsafe { &mut *counter };
            counter.packets = counter.packets.wrapping_add(1);
            counter.bytes = counter.bytes.wrapping_add(frame_bytes.into());
        }
    }
}

/// What differs between the families besides their maps.
pub trait SourceMask: FamilyMaps {
    fn source_mask() -> Self;
}

impl SourceMask for Ipv4 {
    #[inline(always)]
    fn source_mask() -> Self {
        SOURCE_MASK_V4.get()
    }
}

impl SourceMask for Ipv6 {
    #[inline(always)]
    fn source_mask() -> Self {
        SOURCE_MASK_V6.get()
    }
}

impl<A: SourceMask> FamilyTables<A> for KernelTables {
    type Words<'a> = MapWords;

    #[inline(always)]
    fn source_mask(&self) -> A {
        A::source_mask()
    }

    #[inline(always)]
    fn list_entry(&self, address: A) -> Option<ListEntry> {
        if !A::GUARD.get(0)?.contains(address.guard_bit()) {
            return None;
        }
        // SAFETY: elements of a map without preallocation live until the end of the RCU section, which outlasts the program.
        if let Some(entry) = unsafe { A::ADDRESSES.get(address) } {
            return Some(*entry);
        }
        A::PREFIXES
            .get(&lpm_trie::Key::new(A::BITS, address))
            .copied()
    }

    #[inline(always)]
    fn words(&self, key: &SourceKey<A>) -> Option<MapWords> {
        A::SOURCES.get_ptr_mut(key).map(MapWords)
    }

    #[inline(always)]
    fn insert(&self, key: &SourceKey<A>, record: &Record) -> Result<(), InsertError> {
        const EEXIST: i32 = -17;
        match A::SOURCES.insert(key, record, BPF_NOEXIST.into()) {
            Ok(()) => {
                count_inserted(A::FAMILY);
                Ok(())
            }
            Err(EEXIST) => Err(InsertError::Exists),
            Err(_) => Err(InsertError::Full),
        }
    }

    #[inline(always)]
    fn strike(&self, source: A) {
        strike(source, self.now);
    }

    #[inline(always)]
    fn sample(&self, source: A, refusal: Refusal) {
        events::sample(source, refusal, INTERFACE.get(), self.now);
    }
}

#[inline(always)]
fn count_inserted(family: Family) {
    if let Some(inserted) = INSERTED.get_ptr_mut(family as u32) {
        // SAFETY: the counter belongs to this CPU, and XDP programs do not interrupt each other on one.
        unsafe { *inserted = (*inserted).wrapping_add(1) };
    }
}

#[inline(always)]
fn strike<A: FamilyMaps>(source: A, now: Instant) {
    let first = Strikes {
        packets: 1,
        last_ns: now.as_nanos(),
    };
    let known = A::STRIKES.get_ptr_mut(source).or_else(|| {
        match A::STRIKES.insert(source, first, BPF_NOEXIST.into()) {
            Ok(()) => None,
            // Another CPU inserted the source in between.
            Err(_) => A::STRIKES.get_ptr_mut(source),
        }
    });
    if let Some(strikes) = known {
        // SAFETY: the words of a map value are aligned, and live until the program ends.
        unsafe {
            atomic::add(&raw mut (*strikes).packets, 1);
            atomic::store(&raw mut (*strikes).last_ns, now.as_nanos());
        }
    }
}

/// The words of a source, in an element of its map.
///
/// The element may be evicted and given to another source while it is charged: that source is then charged for one packet
/// that it did not send, which the kernel's LRU maps make rare and this design bounds to a packet a CPU.
pub struct MapWords(*mut Record);

impl MapWords {
    #[inline(always)]
    fn word(&self, index: usize) -> *mut u64 {
        // SAFETY: the record is a live map value, and the mask keeps the index within it.
        unsafe {
            (&raw mut (*self.0).words)
                .cast::<u64>()
                .add(index & (LIMITS_MAX - 1))
        }
    }
}

impl Words for MapWords {
    #[inline(always)]
    fn load(&self, index: usize) -> u64 {
        // SAFETY: `word` answers an aligned word of a live map value.
        unsafe { atomic::load(self.word(index)) }
    }

    #[inline(always)]
    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(self.word(index), current, new) }
    }
}
