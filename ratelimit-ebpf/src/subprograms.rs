//! The charging of limits, in subprograms.
//!
//! A function that BTF calls global is verified by itself, once, and not along every path that leads to it (kernel commit
//! 51c39bb1d5d1); its memory is described by the types of its arguments (commit e5069b9c23b3), which may be null. And its
//! stack is its own.

use core::ptr;

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    Address, Arrival, ClassSet, Cursor, DropReason, Instant, Ipv4, Ipv6, Limit, Policy, Record,
    SourceKey,
    algorithm::Algorithm,
    charge::{self, Outcome, Refusal},
    class,
    compact::{self, Place, SLOTS, Set},
    layers,
    new_sources::{self, Newcomer},
    node,
    parse::{
        Connection,
        ipv6::{self, Walk},
        transport::{Fragment, OFFSET_MAX, UpperLayer},
    },
    policy::LIMITS_MAX,
    source::LogKey,
    state,
    strikes::{self, Strike},
};

use crate::{
    compact::MapSet,
    connection, events, frame,
    state::{MapLog, MapNode, MapWord, RecordWords},
    tables::{FamilyCode, KernelTables},
};

/// The size of a packet and its classes, in one argument.
#[inline(always)]
fn pack(arrival: &Arrival) -> u64 {
    u64::from(arrival.classes.bits()) << 32 | u64::from(arrival.bytes)
}

#[inline(always)]
fn unpack(at_ns: u64, packet: u64) -> Arrival {
    Arrival {
        at: Instant::from_nanos(at_ns),
        bytes: packet as u32,
        classes: ClassSet::from_bits((packet >> 32) as u32),
    }
}

/// The refusal of a subprogram that was given nothing, which does not happen: the verifier asks for it.
const NOTHING: u64 = Outcome::refused(DropReason::NoState, 0).to_bits() as u64;

#[inline(always)]
fn encode(outcome: Outcome) -> u64 {
    outcome.to_bits().into()
}

/// An answer of which the compiler knows as little as the verifier, which does not look from one subprogram into another:
/// else it would leave out the comparisons that the verifier wants to see.
#[inline(always)]
pub fn unknown(answer: u64) -> u64 {
    // SAFETY: the reference is valid.
    unsafe { (&raw const answer).read_volatile() }
}

#[inline(always)]
fn decode(answer: u64) -> Outcome {
    Outcome::from_bits(unknown(answer) as u32)
}

/// A source on the stack of the subprogram: kernel 6.1 takes no key of a map from the memory of an argument.
#[inline(always)]
fn on_stack<A: Address>(source: &A) -> A {
    // SAFETY: the reference is valid. Volatile, as the compiler would take the memory that was copied instead of the copy.
    unsafe { ptr::from_ref(source).read_volatile() }
}

/// What the verifier knows as a pointer that may be null.
#[inline(always)]
fn nullable(policy: Option<&Policy>) -> *const Policy {
    policy.map_or(ptr::null(), ptr::from_ref)
}

/// [`ipv6::walk`].
#[inline(always)]
pub fn walk(context: *mut xdp_md, cursor: Cursor<'_>, first: u8) -> Walk {
    let answer = unknown(walk_extensions(
        context,
        cursor.offset().into(),
        first.into(),
    ));
    Walk {
        upper: unpack_upper(answer),
        is_complete: answer & COMPLETE != 0,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_extensions(context: *mut xdp_md, offset: u64, first: u64) -> u64 {
    let context = XdpContext::new(context);
    let mut cursor = frame::cursor(&context, 0);
    cursor.skip(offset as u16 & OFFSET_MAX);
    let walk = ipv6::walk(cursor, first as u8);
    pack_upper(walk.upper) | if walk.is_complete { COMPLETE } else { 0 }
}

/// [`class::classify`].
#[inline(always)]
pub fn classify(context: *mut xdp_md, upper: UpperLayer) -> ClassSet {
    ClassSet::from_bits(classify_packet(context, pack_upper(upper)) as u32)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_packet(context: *mut xdp_md, upper: u64) -> u64 {
    let context = XdpContext::new(context);
    let frame = frame::cursor(&context, 0);
    let tables = KernelTables::at(Instant::default());
    let classes = class::classify(frame, unpack_upper(upper), &tables);
    classes.bits().into()
}

/// Whether all extension headers were looked through, above the upper layer.
const COMPLETE: u64 = 1 << 32;

/// An upper layer: offset, protocol, fragment.
#[inline(always)]
fn pack_upper(upper: UpperLayer) -> u64 {
    u64::from(upper.offset) | u64::from(upper.protocol) << 16 | (upper.fragment as u64) << 24
}

#[inline(always)]
fn unpack_upper(answer: u64) -> UpperLayer {
    UpperLayer {
        offset: answer as u16,
        protocol: (answer >> 16) as u8,
        fragment: match (answer >> 24) as u8 {
            0 => Fragment::Whole,
            1 => Fragment::First,
            _ => Fragment::Later,
        },
    }
}

/// A strike, all but its time: the limit, and whether it may lead to a ban.
#[inline(always)]
fn pack_strike(strike: &Strike<'_>) -> u64 {
    u64::from(strike.may_ban) << 8 | u64::from(strike.limit)
}

#[inline(always)]
fn unpack_strike(at_ns: u64, packet: u64) -> Strike<'static> {
    Strike {
        at: Instant::from_nanos(at_ns),
        // Who needs the frame reads it from the context.
        frame: Cursor::new(&[]),
        limit: packet as u8,
        may_ban: packet >> 8 != 0,
    }
}

/// The scope and the limit of a sliding log, in one argument.
#[inline(always)]
pub fn log_place(scope: u32, index: usize) -> u64 {
    (index as u64) << 32 | u64::from(scope)
}

#[inline(always)]
fn log_key<A: Address>(address: A, place: u64) -> LogKey {
    LogKey::new(&SourceKey::new(address, place as u32)).of_limit((place >> 32) as u32)
}

/// The subprograms of an address family.
macro_rules! of_family {
    ($address:ty, $($compact:ident = $compact_subprogram:ident = $compact_body:path),+; $sample:ident = $sample_drop:ident, $check_log:ident = $check_limit_log:ident, $charge_log:ident = $charge_limit_log:ident, $($function:ident = $subprogram:ident = $body:path),+) => {$(
        /// The function of the same name in `ratelimit-common`.
        #[inline(always)]
        pub fn $function(source: &$address, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
            decode($subprogram(
                source,
                nullable(policy),
                arrival.at.as_nanos(),
                pack(arrival),
            ))
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return NOTHING;
            };
            let arrival = unpack(at_ns, packet);
            let tables = KernelTables::at(arrival.at);
            encode($body(source, policy, &arrival, &tables))
        }
    )+
    $(
        /// The function of the same name where the store is `compact`.
        #[inline(always)]
        pub fn $compact(source: &$address, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
            decode($compact_subprogram(
                source,
                nullable(policy),
                arrival.at.as_nanos(),
                pack(arrival),
            ))
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $compact_subprogram(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return NOTHING;
            };
            encode($compact_body(source, policy, &unpack(at_ns, packet)))
        }
    )+
        /// [`charge::check_limit`] for a sliding log: that of the source at [`log_place`].
        #[inline(always)]
        pub fn $check_log(limit: &Limit, address: &$address, place: u64, at: Instant) -> Outcome {
            decode($check_limit_log(limit, address, place, at.as_nanos()))
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $check_limit_log(
            limit: *const Limit,
            address: *const $address,
            place: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(limit), Some(address)) = (unsafe { (limit.as_ref(), address.as_ref()) }) else {
                return NOTHING;
            };
            let log = MapLog(&log_key(*address, place));
            encode(charge::check_limit(limit, &log, 0, Instant::from_nanos(at_ns), 1))
        }

        /// [`charge::charge_limit`] for a sliding log: that of the source at [`log_place`].
        #[inline(always)]
        pub fn $charge_log(limit: &Limit, address: &$address, place: u64, at: Instant) -> Outcome {
            decode($charge_limit_log(limit, address, place, at.as_nanos()))
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $charge_limit_log(
            limit: *const Limit,
            address: *const $address,
            place: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(limit), Some(address)) = (unsafe { (limit.as_ref(), address.as_ref()) }) else {
                return NOTHING;
            };
            let log = MapLog(&log_key(*address, place));
            encode(charge::charge_limit(limit, &log, 0, Instant::from_nanos(at_ns), 1))
        }

        /// Sends an event about `source`.
        #[inline(always)]
        pub fn $sample(source: &$address, refusal: Refusal, interface: u32, now: Instant) {
            let refusal = Outcome::refused(refusal.reason, refusal.limit.into());
            $sample_drop(source, encode(refusal), interface.into(), now.as_nanos());
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $sample_drop(
            source: *const $address,
            refusal: u64,
            interface: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: as above.
            let source = unsafe { source.as_ref() };
            if let (Some(source), Some(refusal)) = (source, decode(refusal).refusal()) {
                events::sample(*source, refusal, interface as u32, Instant::from_nanos(at_ns));
            }
            0
        }
    };
}

of_family!(
    Ipv4,
    check_compact_v4 = check_compact_limits_v4 = crate::compact::check,
    charge_compact_v4 = charge_compact_limits_v4 = crate::compact::charge,
    charge_compact_words_v4 = charge_compact_limit_words_v4 = crate::compact::charge_words;
    sample_v4 = sample_drop_v4,
    check_log_v4 = check_limit_log_v4,
    charge_log_v4 = charge_limit_log_v4,
    check_v4 = check_limits_v4 = state::check,
    charge_v4 = charge_limits_v4 = state::charge,
    charge_new_v4 = charge_new_source_v4 = charge_new
);
of_family!(
    Ipv6,
    check_compact_v6 = check_compact_limits_v6 = crate::compact::check,
    charge_compact_v6 = charge_compact_limits_v6 = crate::compact::charge,
    charge_compact_words_v6 = charge_compact_limit_words_v6 = crate::compact::charge_words;
    sample_v6 = sample_drop_v6,
    check_log_v6 = check_limit_log_v6,
    charge_log_v6 = charge_limit_log_v6,
    check_v6 = check_limits_v6 = state::check,
    charge_v6 = charge_limits_v6 = state::charge,
    charge_new_v6 = charge_new_source_v6 = charge_new
);

/// [`new_sources::charge`].
#[inline(always)]
fn charge_new<A: FamilyCode>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &KernelTables,
) -> Outcome {
    new_sources::charge(*source, policy, arrival, tables)
}

/// Whether the sources of an address family are known, where the store is `compact`.
macro_rules! of_known {
    ($($address:ty, $function:ident = $subprogram:ident;)+) => {$(
        /// [`is_known`](crate::compact::is_known).
        #[inline(always)]
        pub fn $function(source: &$address, policy: &Policy, arrival: &Arrival) -> bool {
            unknown($subprogram(source, policy, pack(arrival))) != 0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
            source: *const $address,
            policy: *const Policy,
            packet: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), Some(policy)) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            crate::compact::is_known(source, policy, &unpack(0, packet)).into()
        }
    )+};
}

of_known!(
    Ipv4, is_known_v4 = has_state_v4;
    Ipv6, is_known_v6 = has_state_v6;
);

/// Takes one of this CPU's budget for new sources.
#[inline(always)]
pub fn take_new_source(newcomer: Newcomer, at: Instant) -> bool {
    unknown(take_of_budget(newcomer as u64, at.as_nanos())) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_of_budget(newcomer: u64, at_ns: u64) -> u64 {
    let newcomer = match newcomer {
        0 => Newcomer::Source,
        _ => Newcomer::Crowd,
    };
    crate::new_sources::take(newcomer, Instant::from_nanos(at_ns)).into()
}

/// The strikes of an address family.
macro_rules! of_strikes {
    ($address:ty, $strike:ident = $count_strike:ident, $detect:ident = $detect_source:ident, $is_connected:ident = $find_connection:ident = $read:expr) => {
        /// [`FamilyTables::count_strike`](ratelimit_common::tables::FamilyTables::count_strike), by the rule of a policy.
        #[inline(always)]
        pub fn $strike(source: &$address, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
            let at_ns = strike.at.as_nanos();
            unknown($count_strike(
                source,
                nullable(policy),
                at_ns,
                pack_strike(strike),
            )) != 0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $count_strike(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            let strike = unpack_strike(at_ns, packet);
            strikes::count(
                &on_stack(source),
                policy,
                &strike,
                &KernelTables::at(strike.at),
            )
            .into()
        }

        /// [`strikes::detect`].
        #[inline(always)]
        pub fn $detect(
            context: *mut xdp_md,
            source: &$address,
            policy: Option<&Policy>,
            strike: &Strike<'_>,
        ) {
            let at_ns = strike.at.as_nanos();
            $detect_source(
                context,
                source,
                nullable(policy),
                at_ns,
                pack_strike(strike),
            );
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $detect_source(
            context: *mut xdp_md,
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            let strike = unpack_strike(at_ns, packet);
            strikes::detect(
                &on_stack(source),
                policy,
                &strike,
                &KernelTables::new(context, strike.at),
            );
            0
        }

        /// Whether the packet of `context` is one of a connection with this host.
        #[inline(always)]
        pub fn $is_connected(context: *mut xdp_md) -> bool {
            unknown($find_connection(context)) != 0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $find_connection(context: *mut xdp_md) -> u64 {
            let xdp = XdpContext::new(context);
            let connection: Option<Connection<$address>> = $read(frame::cursor(&xdp, 0), context);
            let is_completed =
                connection.is_some_and(|connection| connection::is_completed(context, &connection));
            is_completed.into()
        }
    };
}

of_strikes!(
    Ipv4,
    strike_v4 = count_strike_v4,
    detect_v4 = detect_source_v4,
    is_connected_v4 = find_connection_v4 = |frame, _| Connection::of_ipv4(frame)
);
of_strikes!(
    Ipv6,
    strike_v6 = count_strike_v6,
    detect_v6 = detect_source_v6,
    is_connected_v6 = find_connection_v6 = |frame, context| {
        Connection::of_ipv6(frame, |cursor, first| walk(context, cursor, first))
    }
);

/// The layers of an address family.
macro_rules! of_layers {
    ($address:ty, $($function:ident = $subprogram:ident = $body:path),+) => {$(
        /// The function of the same name in `ratelimit-common`.
        #[inline(always)]
        pub fn $function(
            layer: usize,
            source: &$address,
            policy: Option<&Policy>,
            arrival: &Arrival,
        ) -> Outcome {
            decode($subprogram(
                layer as u64,
                source,
                nullable(policy),
                arrival.at.as_nanos(),
                pack(arrival),
            ))
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
            layer: u64,
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return NOTHING;
            };
            let arrival = unpack(at_ns, packet);
            let tables = KernelTables::at(arrival.at);
            encode($body(layer as usize, source, policy, &arrival, &tables))
        }
    )+};
}

of_layers!(
    Ipv4,
    check_layer_v4 = check_layer_limits_v4 = layers::check_layer,
    charge_layer_v4 = charge_layer_limits_v4 = layers::charge_layer
);
of_layers!(
    Ipv6,
    check_layer_v6 = check_layer_limits_v6 = layers::check_layer,
    charge_layer_v6 = charge_layer_limits_v6 = layers::charge_layer
);

/// [`charge::charge`] for a policy without logs, with no further call.
#[inline(always)]
pub fn charge_words(policy: &Policy, record: *mut Record, arrival: &Arrival) -> Outcome {
    let at_ns = arrival.at.as_nanos();
    decode(charge_limit_words(policy, record, at_ns, pack(arrival)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn charge_limit_words(
    policy: *const Policy,
    record: *mut Record,
    at_ns: u64,
    packet: u64,
) -> u64 {
    // SAFETY: as above.
    let Some(policy) = (unsafe { policy.as_ref() }) else {
        return NOTHING;
    };
    if record.is_null() {
        return NOTHING;
    }
    encode(charge::charge(
        policy,
        &RecordWords(record),
        &unpack(at_ns, packet),
    ))
}

/// [`charge::check_limit`] for a limit whose state is a word.
#[inline(always)]
pub fn check_word(limit: &Limit, word: *mut u64, at: Instant, cost: u64) -> Outcome {
    decode(check_limit_word(limit, word, at.as_nanos(), cost))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_limit_word(limit: *const Limit, word: *mut u64, at_ns: u64, cost: u64) -> u64 {
    // SAFETY: as above.
    let Some(limit) = (unsafe { limit.as_ref() }) else {
        return NOTHING;
    };
    if word.is_null() {
        return NOTHING;
    }
    let at = Instant::from_nanos(at_ns);
    encode(charge::check_limit(limit, &MapWord(word), 0, at, cost))
}

/// [`charge::charge_limit`] for a limit whose state is a word.
#[inline(always)]
pub fn charge_word(limit: &Limit, word: *mut u64, at: Instant, cost: u64) -> Outcome {
    decode(match limit.algorithm() {
        Algorithm::FixedWindow(_) => charge_fixed_window(limit, word, at.as_nanos(), cost),
        Algorithm::SlidingWindow(_) => charge_sliding_window(limit, word, at.as_nanos(), cost),
        Algorithm::TokenBucket(_) => charge_token_bucket(limit, word, at.as_nanos(), cost),
        Algorithm::SlidingLog(_) => NOTHING,
    })
}

/// The same for a limit that is known to be a fixed window.
#[inline(always)]
pub fn charge_window(limit: &Limit, word: *mut u64, at: Instant, cost: u64) -> Outcome {
    decode(charge_fixed_window(limit, word, at.as_nanos(), cost))
}

/// [`compact::check_new`].
#[inline(always)]
pub fn check_new(limit: &Limit, set: MapSet, at: Instant, cost: u64) -> Outcome {
    decode(check_newcomer(limit, set.0, at.as_nanos(), cost))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_newcomer(limit: *const Limit, set: *mut Set, at_ns: u64, cost: u64) -> u64 {
    // SAFETY: as above.
    let Some(limit) = (unsafe { limit.as_ref() }) else {
        return NOTHING;
    };
    if set.is_null() {
        return NOTHING;
    }
    let at = Instant::from_nanos(at_ns);
    encode(compact::check_new(&MapSet(set), limit, at, cost))
}

/// A place: its slot above the outcome, and above that whether it was claimed.
const SLOT_SHIFT: u32 = 32;
const NEW: u64 = 1 << 40;

/// [`compact::place_new`].
#[inline(always)]
pub fn place_new(limit: &Limit, set: MapSet, tag: u64, at: Instant, cost: u64) -> Place {
    let answer = unknown(place_newcomer(limit, set.0, tag, at.as_nanos(), cost));
    Place {
        slot: (answer >> SLOT_SHIFT) as usize & (SLOTS - 1),
        is_new: answer & NEW != 0,
        outcome: Outcome::from_bits(answer as u32),
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn place_newcomer(
    limit: *const Limit,
    set: *mut Set,
    tag: u64,
    at_ns: u64,
    cost: u64,
) -> u64 {
    // SAFETY: as above.
    let Some(limit) = (unsafe { limit.as_ref() }) else {
        return NOTHING;
    };
    if set.is_null() {
        return NOTHING;
    }
    let at = Instant::from_nanos(at_ns);
    let place = compact::place_new(&MapSet(set), tag, limit, at, cost);
    encode(place.outcome) | (place.slot as u64) << SLOT_SHIFT | if place.is_new { NEW } else { 0 }
}

/// The subprogram of an algorithm: what it charges has a frame of its own, as short as can be.
macro_rules! of_algorithm {
    ($($function:ident = $algorithm:path),+) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $function(limit: *const Limit, word: *mut u64, at_ns: u64, cost: u64) -> u64 {
            // SAFETY: as above.
            let Some(limit) = (unsafe { limit.as_ref() }) else {
                return NOTHING;
            };
            if word.is_null() {
                return NOTHING;
            }
            let $algorithm(algorithm) = limit.algorithm() else {
                return NOTHING;
            };
            let step = |state| algorithm.step(state, Instant::from_nanos(at_ns), cost);
            encode(charge::charge_word(&MapWord(word), 0, step))
        }
    )+};
}

of_algorithm!(
    charge_fixed_window = Algorithm::FixedWindow,
    charge_sliding_window = Algorithm::SlidingWindow,
    charge_token_bucket = Algorithm::TokenBucket
);

/// [`node::check`].
#[inline(always)]
pub fn check_node(policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    decode(check_node_limits(
        nullable(policy),
        arrival.at.as_nanos(),
        pack(arrival),
    ))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_node_limits(policy: *const Policy, at_ns: u64, packet: u64) -> u64 {
    // SAFETY: as above.
    let policy = unsafe { policy.as_ref() };
    encode(node::check(policy, &MapNode, &unpack(at_ns, packet)))
}

/// [`node::charge`].
#[inline(always)]
pub fn charge_node(policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
    decode(charge_node_limits(
        nullable(policy),
        arrival.at.as_nanos(),
        pack(arrival),
    ))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn charge_node_limits(policy: *const Policy, at_ns: u64, packet: u64) -> u64 {
    // SAFETY: as above.
    let policy = unsafe { policy.as_ref() };
    encode(node::charge(policy, &MapNode, &unpack(at_ns, packet)))
}

/// [`node::draw`].
#[inline(always)]
pub fn draw_share(policy: &Policy, index: usize, at: Instant, cost: u64) -> Outcome {
    decode(draw_node_share(policy, index as u64, at.as_nanos(), cost))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn draw_node_share(policy: *const Policy, index: u64, at_ns: u64, cost: u64) -> u64 {
    // SAFETY: as above.
    let Some(policy) = (unsafe { policy.as_ref() }) else {
        return NOTHING;
    };
    let at = Instant::from_nanos(at_ns);
    // Kernel 6.1 learns from a comparison about the register, not about the place on the stack that it was read from. A mask
    // comes before it is put there.
    let index = index as usize & (LIMITS_MAX - 1);
    encode(node::draw(policy, &MapNode, index, at, cost))
}
