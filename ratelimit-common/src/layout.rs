//! The maps as the kernel and user space both know them: names, sizes, version. `pod.rs` names the
//! types of their values.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Family, Verdict, algorithm::sliding_log::TIMES_MAX, verdict::VERDICTS};

/// The version of all types of this crate in maps. Pins are in `v<VERSION>`: a daemon with another
/// layout never reads them.
pub const VERSION: u32 = 22;

/// The entry point for frames that fit into one buffer.
pub const PROGRAM: &str = "ratelimit";

/// The entry point for frames that may take several buffers.
pub const PROGRAM_FRAGS: &str = "ratelimit_frags";

/// The entry point at TCX.
pub const PROGRAM_TCX: &str = "ratelimit_tcx";

/// The program that others call, and the map with its next program.
pub const ENTRIES: [&str; 2] = ["ratelimit_entry", "BEHIND"];
/// The variants for frames of several buffers.
pub const ENTRIES_FRAGS: [&str; 2] = ["ratelimit_jumbo", "BEHIND_FRAGS"];

/// The bytes copied from a frame of several buffers if the first buffer has fewer. With two VLAN
/// tags and an IPv6 header that leaves 190 for extension headers and TCP. A power of two.
pub const FRONT_COPIED: u32 = 256;

/// Interfaces that can be counted apart; each has a slot below this.
pub const INTERFACES_MAX: u32 = 32;

/// Policies that can be loaded at once.
pub const POLICIES_MAX: u32 = 16_384;

/// The policies of leases, after all others. They have room for two periods.
pub const LEASED_MAX: u32 = 8_192;

/// Sources, prefixes and nodes that have leases at once.
pub const LEASES_MAX: u32 = 8_192;

/// The keys whose demand is counted at once.
pub const DEMANDS_MAX: u32 = 16_384;

/// List entries of a family: a million, and room for another million that replaces them.
pub const LISTED_MAX: u32 = 1 << 21;

/// Sources with state, of each family, unless the configuration says otherwise.
pub const SOURCES_DEFAULT: u32 = 1 << 18;

/// Sources of each family whose strikes are counted.
pub const STRIKES_MAX: u32 = 1 << 16;

/// Filters of sources: of each family those of bans, and behind them those of
/// [leases](crate::lease::filter_of).
pub const FILTERS_MAX: u32 = 4;

/// Sources of each family that are known as verified.
pub const VERIFIED_MAX: u32 = 1 << 16;

/// Sources of each family that policies have banned and user space has not adopted.
pub const POLICY_BANS_MAX: u32 = 1 << 16;

/// Policies of the node with separate words: the one in force, and the next one of a reload. The
/// words of a policy are at its scope modulo this.
pub const NODE_POLICIES: u32 = 16;

/// Places for the state of limits of all packets together: those of the node, and behind them those
/// of destinations.
pub const TOTALS_MAX: u32 = POLICIES_MAX;

/// A CPU keeps shares of this many limits: those of the node, and of destinations that are
/// receiving packets.
pub const SHARED_MAX: u32 = 1024;

/// Times that a sliding log of the object as it is built may hold. The daemon makes the maps as
/// large as the limits need.
pub const LOG_TIMES: u32 = TIMES_MAX;

/// Bytes of the ring of events: 2,000 events of the fastest sampling of 20 CPUs last a second.
pub const EVENTS_BYTES: u32 = 1 << 17;

/// Bytes of the ring of captured packets: 340 of the longest that are usual, or 4,600 of the
/// shortest.
pub const CAPTURED_BYTES: u32 = 1 << 19;

/// Bytes of the ring of samples: 6,500 of them. User space looks 20 times a second.
pub const SAMPLES_BYTES: u32 = 1 << 20;

/// Counters, one for each interface, family and verdict.
#[expect(clippy::cast_possible_truncation, reason = "evaluated at compile time")]
pub const COUNTERS: u32 = INTERFACES_MAX * (Family::ALL.len() * VERDICTS) as u32;

/// The place of a counter, below [`COUNTERS`] for an interface below [`INTERFACES_MAX`].
#[inline(always)]
#[expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "bounded by COUNTERS"
)]
pub const fn counter_index(interface: u32, family: Family, verdict: Verdict) -> u32 {
    first_counter(interface) + (family as usize * VERDICTS + verdict.index()) as u32
}

/// The place of the first counter of an interface below [`INTERFACES_MAX`].
#[expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "bounded by COUNTERS"
)]
pub const fn first_counter(interface: u32) -> u32 {
    (interface & (INTERFACES_MAX - 1)) * (Family::ALL.len() * VERDICTS) as u32
}

/// Slots in which packets are counted that meet an entry of the lists, 1 MiB a CPU. A slot takes 16
/// bits of an entry.
pub const SLOTS_MAX: u32 = 1 << 16;

/// The slots of policies. Those before are of bans, allows and lists, but for the first, which
/// counts nothing.
pub const POLICY_SLOTS: u32 = 3 << 14;

/// Packets and bytes under one verdict.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames, as `ip -s link` counts.
    pub bytes: u64,
}

impl Counter {
    /// Adds a packet.
    pub const fn with(self, frame_bytes: u32) -> Self {
        self.plus(Self {
            packets: 1,
            bytes: frame_bytes as u64,
        })
    }

    /// The sum of both.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

/// The header before the network header on an interface; fixed when the program is loaded.
pub mod link_layer {
    /// An Ethernet header, with or without VLAN tags.
    pub const ETHERNET: u32 = 0;
    /// Nothing: a frame is an IP packet, as on tun, wireguard, ppp and tunnels of IP.
    pub const NONE: u32 = 1;
}

/// The indices of the map `ENDS`.
pub mod ends {
    /// The end of `pass-all`. It is read only where the settings say so.
    pub const PASS_ALL: u32 = 0;
    /// The end of a pause of the challenge.
    pub const PAUSE: u32 = 1;
    /// The number of indices.
    pub const COUNT: u32 = 2;
}

/// The store for the state of sources; fixed when the program is loaded.
pub mod store {
    /// In LRU hash maps.
    pub const LRU: u32 = 0;
    /// In tables of [sets](crate::compact).
    pub const COMPACT: u32 = 1;
}

/// The clock of a program under test; fixed when it is loaded.
pub mod clock {
    /// The kernel's clocks: the [settings](crate::Settings) say which one.
    pub const KERNEL: u32 = 0;
    /// The map `MANUAL_CLOCK`.
    pub const MANUAL: u32 = 1;
}
