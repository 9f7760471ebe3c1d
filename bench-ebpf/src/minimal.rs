//! A limiter written by hand for one configuration: a fixed window for each source, bans behind a
//! filter, counters of each CPU, the coarse clock, and a budget for new sources. The product is
//! measured beside it.
//!
//! It knows IPv4 and IPv6 over Ethernet and nothing else: its constants are the configuration, and
//! nothing can be changed, read or reported.

use core::{arch::asm, mem::offset_of};

use aya_ebpf::{
    bindings::{
        BPF_NOEXIST,
        xdp_action::{XDP_DROP, XDP_PASS},
    },
    btf_maps::{Array, HashMap, LruHashMap, PerCpuArray},
    helpers::generated::bpf_ktime_get_coarse_ns,
    macros::btf_map,
    programs::XdpContext,
};

/// Packets that a source has in a window. No case reaches it.
const PACKETS: u32 = 1 << 31;
/// The clock in steps of 2^20 ns, about a millisecond.
const CLOCK_SHIFT: u32 = 20;
/// The length of a window in these steps, about a second.
const WINDOW: u32 = 1 << 10;
/// The attempts of a compare-and-swap before the packet is refused.
const ATTEMPTS: usize = 4;
/// Slots of a set.
const SLOTS: usize = 8;

/// Source → its word: the beginning of the window in the upper half, packets in the lower one.
#[btf_map]
static MINIMAL: LruHashMap<u64, u64, 1> = LruHashMap::new();

/// Set → its slots. User space sets how many there are, and [`SET_MASK`].
#[btf_map]
static MINIMAL_SETS: Array<[Slot; SLOTS], 1> = Array::new();

/// The number of sets, a power of two, less one.
#[unsafe(no_mangle)]
static SET_MASK: u32 = 0;

/// Two odd numbers, set by user space. Sources of one set cannot be chosen without them.
#[unsafe(no_mangle)]
static SEEDS: [u64; 2] = [0; 2];

/// New sources per window, set by user space. Sources over the budget pass without a record.
#[unsafe(no_mangle)]
static NEW_SOURCES: u32 = 0;

/// The upper 16 bits of an IPv4 address, or 65,536 and bits 16 to 32 of an IPv6 address → whether
/// it contains a ban.
#[btf_map]
static FILTER: Array<u64, 131_072> = Array::new();

/// The sources that are banned.
#[btf_map]
static BANNED: HashMap<u64, u64, 1024> = HashMap::new();

/// Index 0 → the word of the budget for new sources.
#[btf_map]
static BUDGET: Array<u64, 1> = Array::new();

/// [`Verdict`] → packets and bytes that this CPU has judged so.
#[btf_map]
static COUNTERS: PerCpuArray<[u64; 2], 4> = PerCpuArray::new();

#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    source: u64,
    word: u64,
}

#[derive(Clone, Copy)]
enum Verdict {
    Passed,
    Limited,
    Banned,
    NotIp,
}

/// Keeps the words of sources in the kernel's hash map, as the store `lru` does.
#[inline(always)]
pub fn with_lru(context: &XdpContext) -> Option<u32> {
    judge(context, |source, now| {
        let Some(word) = MINIMAL.get_ptr_mut(source) else {
            let word = u64::from(now) << 32 | 1;
            // SAFETY: user space writes it before the program is loaded.
            let new_sources = unsafe { (&raw const NEW_SOURCES).read_volatile() };
            if charge(BUDGET.get_ptr_mut(0)?, now, new_sources) {
                let _ = MINIMAL.insert(source, word, BPF_NOEXIST.into());
            }
            return Some(true);
        };
        Some(charge(word, now, PACKETS))
    })
}

/// Keeps them in sets of eight, as the store `compact` does.
#[inline(always)]
pub fn with_sets(context: &XdpContext) -> Option<u32> {
    judge(context, |source, now| {
        // SAFETY: user space writes them before the program is loaded.
        let (mask, [first, second]) = unsafe {
            (
                (&raw const SET_MASK).read_volatile(),
                (&raw const SEEDS).read_volatile(),
            )
        };
        let mixed = (source ^ source >> 32).wrapping_mul(first);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(second);
        let slots = MINIMAL_SETS
            .get_ptr_mut((mixed >> 32) as u32 & mask)?
            .cast::<Slot>();
        let (mut oldest, mut age) = (0, 0);
        for slot in 0..SLOTS {
            // SAFETY: a live map value with this many slots.
            let Slot {
                source: tenant,
                word,
            } = unsafe { slots.add(slot).read_volatile() };
            if tenant == source {
                // SAFETY: as above.
                return Some(charge(unsafe { word_of(slots, slot) }, now, PACKETS));
            }
            let begun = now.wrapping_sub((word >> 32) as u32);
            if begun > age {
                (oldest, age) = (slot, begun);
            }
        }
        let oldest = oldest & (SLOTS - 1);
        // SAFETY: as above; two CPUs at once lose one of the sources.
        unsafe {
            (*slots.add(oldest)).source = source;
            *word_of(slots, oldest) = u64::from(now) << 32 | 1;
        }
        Some(true)
    })
}

/// # Safety
///
/// `slots` is a live set, and `slot` below [`SLOTS`].
#[inline(always)]
unsafe fn word_of(slots: *mut Slot, slot: usize) -> *mut u64 {
    // SAFETY: the caller's.
    unsafe { slots.add(slot).byte_add(offset_of!(Slot, word)).cast() }
}

/// Judges and counts a packet. `charge` charges a source, and returns whether it is within its
/// limit.
#[inline(always)]
fn judge(context: &XdpContext, charge: impl FnOnce(u64, u32) -> Option<bool>) -> Option<u32> {
    let verdict = match source(context) {
        None => Verdict::NotIp,
        Some((source, index)) if is_banned(source, index) => Verdict::Banned,
        Some((source, _)) => {
            // SAFETY: takes no pointers.
            let now = unsafe { bpf_ktime_get_coarse_ns() };
            if charge(source, (now >> CLOCK_SHIFT) as u32)? {
                Verdict::Passed
            } else {
                Verdict::Limited
            }
        }
    };
    let counter = COUNTERS.get_ptr_mut(verdict as u32)?;
    // SAFETY: the value belongs to this CPU, and XDP programs do not interrupt each other on one.
    unsafe {
        (*counter)[0] += 1;
        (*counter)[1] += (context.data_end() - context.data()) as u64;
    }
    Some(match verdict {
        Verdict::Passed | Verdict::NotIp => XDP_PASS,
        Verdict::Limited | Verdict::Banned => XDP_DROP,
    })
}

/// The source of a packet, an address of IPv4 or a /64 of IPv6, and its index in [`FILTER`].
#[inline(always)]
fn source(context: &XdpContext) -> Option<(u64, u32)> {
    match u16::from_be_bytes(read(context, 12)?) {
        0x0800 if read::<1>(context, 14)?[0] >> 4 == 4 => {
            let source = u32::from_be_bytes(read::<20>(context, 14)?[12..16].try_into().ok()?);
            Some((source.into(), source >> 16))
        }
        0x86dd if read::<1>(context, 14)?[0] >> 4 == 6 => {
            let source = u64::from_be_bytes(read::<40>(context, 14)?[8..16].try_into().ok()?);
            Some((source, 65_536 | (source >> 32) as u16 as u32))
        }
        _ => None,
    }
}

#[inline(always)]
fn read<const BYTES: usize>(context: &XdpContext, offset: usize) -> Option<[u8; BYTES]> {
    let start = context.data() + offset;
    if start + BYTES > context.data_end() {
        return None;
    }
    // SAFETY: the bytes lie within the packet, which lives as long as the context.
    Some(unsafe { (start as *const [u8; BYTES]).read_unaligned() })
}

#[inline(always)]
fn is_banned(source: u64, index: u32) -> bool {
    match FILTER.get(index) {
        None | Some(0) => false,
        Some(_) => BANNED.get_ptr(source).is_some(),
    }
}

/// Charges a packet to a word, and returns whether it is within `packets`.
#[inline(always)]
fn charge(word: *mut u64, now: u32, packets: u32) -> bool {
    for _ in 0..ATTEMPTS {
        // SAFETY: a live map value.
        let before = unsafe { word.read_volatile() };
        let is_open = now.wrapping_sub((before >> 32) as u32) < WINDOW;
        let after = if is_open {
            if before as u32 >= packets {
                return false;
            }
            before + 1
        } else {
            u64::from(now) << 32 | 1
        };
        let actual: u64;
        // SAFETY: a live map value.
        unsafe {
            asm!(
                "r0 = cmpxchg_64({0} + 0, r0, {1})",
                in(reg) word,
                in(reg) after,
                inout("r0") before => actual,
                options(nostack, preserves_flags),
            );
        }
        if actual == before {
            return true;
        }
    }
    false
}
