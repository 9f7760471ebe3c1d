//! The subprograms of an address family. BTF knows no type parameters, so each family has its own.

use aya_ebpf::bindings::xdp_md;
use ratelimit_common::{Ipv4, Ipv6, Limit, Policy};

use super::{
    challenge, destinations, established, events, layers, leases, logs, new_sources, source_limits,
    strikes,
};
use crate::{lists, maps::FamilyMaps};

/// Of a source, its policy, a time and a packet.
pub type OfSource<A> = extern "C" fn(*const A, *const Policy, u64, u64) -> u64;

/// Of a layer, a source, its policy, a time and a packet.
pub type OfLayer<A> = extern "C" fn(u64, *const A, *const Policy, u64, u64) -> u64;

/// Of a limit, a source, the place of its log, and a time.
pub type OfLog<A> = extern "C" fn(*const Limit, *const A, u64, u64) -> u64;

/// The subprograms of a family, each described beside the function that calls it.
pub trait Subprograms: FamilyMaps {
    const CHALLENGE: extern "C" fn(*mut xdp_md, *const Self, u64, u64) -> u64;
    const CHARGE_DESTINATION: OfSource<Self>;
    const CHARGE_ESTABLISHED: extern "C" fn(
        *mut xdp_md,
        *const Self,
        *const Policy,
        u64,
        u64,
    ) -> u64;
    const CHARGE_LAYER: OfLayer<Self>;
    const CHARGE_LEASED: OfSource<Self>;
    const CHARGE_LOG: OfLog<Self>;
    const CHARGE_NEW: OfSource<Self>;
    const CHARGE_RECORD: OfSource<Self>;
    const CHARGE_SLOTS: OfSource<Self>;
    const CHARGE_SLOT_WORDS: extern "C" fn(u64, *const Policy, u64, u64) -> u64;
    const CHECK_LAYER: OfLayer<Self>;
    const CHECK_LOG: OfLog<Self>;
    const CHECK_RECORD: OfSource<Self>;
    const CHECK_SLOTS: OfSource<Self>;
    const COUNT_STRIKE: OfSource<Self>;
    const COUNT_DEMAND: OfSource<Self>;
    const COUNT_SHARED_REFUSAL: extern "C" fn(*const Self, u64, u64) -> u64;
    const DETECT: extern "C" fn(*mut xdp_md, *const Self, *const Policy, u64, u64) -> u64;
    const FIND_DESTINATION: extern "C" fn(*mut xdp_md, u64, u64) -> u64;
    const FIND_SOCKET: extern "C" fn(*mut xdp_md, u64) -> u64;
    const HAS_STATE: extern "C" fn(*const Self, *const Policy, u64) -> u64;
    const IS_UNPROVED: extern "C" fn(*mut xdp_md, *const Self, u64) -> u64;
    const LEASED: extern "C" fn(*const Self, u64, u64) -> u64;
    const LONGEST_MATCH: extern "C" fn(*const Self, u64, u64, u64, u64) -> u64;
    const SAMPLE: extern "C" fn(*mut xdp_md, *const Self, u64, u64) -> u64;
}

impl Subprograms for Ipv4 {
    const CHALLENGE: extern "C" fn(*mut xdp_md, *const Self, u64, u64) -> u64 =
        challenge::challenge_source_v4;
    const CHARGE_DESTINATION: OfSource<Self> = destinations::charge_destination_v4;
    const CHARGE_ESTABLISHED: extern "C" fn(
        *mut xdp_md,
        *const Self,
        *const Policy,
        u64,
        u64,
    ) -> u64 = established::charge_established_v4;
    const CHARGE_LAYER: OfLayer<Self> = layers::charge_layer_limits_v4;
    const CHARGE_LEASED: OfSource<Self> = leases::charge_leased_limits_v4;
    const CHARGE_LOG: OfLog<Self> = logs::charge_limit_log_v4;
    const CHARGE_NEW: OfSource<Self> = source_limits::charge_new_source_v4;
    const CHARGE_RECORD: OfSource<Self> = source_limits::charge_limits_v4;
    const CHARGE_SLOTS: OfSource<Self> = source_limits::charge_compact_limits_v4;
    const CHARGE_SLOT_WORDS: extern "C" fn(u64, *const Policy, u64, u64) -> u64 =
        source_limits::charge_compact_limit_words_v4;
    const CHECK_LAYER: OfLayer<Self> = layers::check_layer_limits_v4;
    const CHECK_LOG: OfLog<Self> = logs::check_limit_log_v4;
    const CHECK_RECORD: OfSource<Self> = source_limits::check_limits_v4;
    const CHECK_SLOTS: OfSource<Self> = source_limits::check_compact_limits_v4;
    const COUNT_STRIKE: OfSource<Self> = strikes::count_strike_v4;
    const COUNT_DEMAND: OfSource<Self> = leases::count_demand_v4;
    const COUNT_SHARED_REFUSAL: extern "C" fn(*const Self, u64, u64) -> u64 =
        layers::count_shared_refusal_v4;
    const IS_UNPROVED: extern "C" fn(*mut xdp_md, *const Self, u64) -> u64 =
        challenge::is_unproved_v4;
    const LEASED: extern "C" fn(*const Self, u64, u64) -> u64 = leases::leased_by_source_v4;
    const DETECT: extern "C" fn(*mut xdp_md, *const Self, *const Policy, u64, u64) -> u64 =
        strikes::detect_source_v4;
    const FIND_DESTINATION: extern "C" fn(*mut xdp_md, u64, u64) -> u64 =
        destinations::find_destination_v4;
    const FIND_SOCKET: extern "C" fn(*mut xdp_md, u64) -> u64 = strikes::find_socket_v4;
    const HAS_STATE: extern "C" fn(*const Self, *const Policy, u64) -> u64 =
        new_sources::has_state_v4;
    const LONGEST_MATCH: extern "C" fn(*const Self, u64, u64, u64, u64) -> u64 =
        lists::longest_match_v4;
    const SAMPLE: extern "C" fn(*mut xdp_md, *const Self, u64, u64) -> u64 = events::sample_drop_v4;
}

impl Subprograms for Ipv6 {
    const CHALLENGE: extern "C" fn(*mut xdp_md, *const Self, u64, u64) -> u64 =
        challenge::challenge_source_v6;
    const CHARGE_DESTINATION: OfSource<Self> = destinations::charge_destination_v6;
    const CHARGE_ESTABLISHED: extern "C" fn(
        *mut xdp_md,
        *const Self,
        *const Policy,
        u64,
        u64,
    ) -> u64 = established::charge_established_v6;
    const CHARGE_LAYER: OfLayer<Self> = layers::charge_layer_limits_v6;
    const CHARGE_LEASED: OfSource<Self> = leases::charge_leased_limits_v6;
    const CHARGE_LOG: OfLog<Self> = logs::charge_limit_log_v6;
    const CHARGE_NEW: OfSource<Self> = source_limits::charge_new_source_v6;
    const CHARGE_RECORD: OfSource<Self> = source_limits::charge_limits_v6;
    const CHARGE_SLOTS: OfSource<Self> = source_limits::charge_compact_limits_v6;
    const CHARGE_SLOT_WORDS: extern "C" fn(u64, *const Policy, u64, u64) -> u64 =
        source_limits::charge_compact_limit_words_v6;
    const CHECK_LAYER: OfLayer<Self> = layers::check_layer_limits_v6;
    const CHECK_LOG: OfLog<Self> = logs::check_limit_log_v6;
    const CHECK_RECORD: OfSource<Self> = source_limits::check_limits_v6;
    const CHECK_SLOTS: OfSource<Self> = source_limits::check_compact_limits_v6;
    const COUNT_STRIKE: OfSource<Self> = strikes::count_strike_v6;
    const COUNT_DEMAND: OfSource<Self> = leases::count_demand_v6;
    const COUNT_SHARED_REFUSAL: extern "C" fn(*const Self, u64, u64) -> u64 =
        layers::count_shared_refusal_v6;
    const IS_UNPROVED: extern "C" fn(*mut xdp_md, *const Self, u64) -> u64 =
        challenge::is_unproved_v6;
    const LEASED: extern "C" fn(*const Self, u64, u64) -> u64 = leases::leased_by_source_v6;
    const DETECT: extern "C" fn(*mut xdp_md, *const Self, *const Policy, u64, u64) -> u64 =
        strikes::detect_source_v6;
    const FIND_DESTINATION: extern "C" fn(*mut xdp_md, u64, u64) -> u64 =
        destinations::find_destination_v6;
    const FIND_SOCKET: extern "C" fn(*mut xdp_md, u64) -> u64 = strikes::find_socket_v6;
    const HAS_STATE: extern "C" fn(*const Self, *const Policy, u64) -> u64 =
        new_sources::has_state_v6;
    const LONGEST_MATCH: extern "C" fn(*const Self, u64, u64, u64, u64) -> u64 =
        lists::longest_match_v6;
    const SAMPLE: extern "C" fn(*mut xdp_md, *const Self, u64, u64) -> u64 = events::sample_drop_v6;
}
