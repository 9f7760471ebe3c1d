//! This node's leases of cluster-wide limits, and the demand of packets for them.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    Arrival, Instant, Policy, SourceKey,
    lease::{self, Demand, Demanded, Lease, node_key},
    limit::LIMITS_MAX,
    source::LogKey,
};

use crate::{
    atomic,
    maps::{self, DEMANDS, FILTERS, FamilyMaps, LEASES},
    policy_ban,
    subprogram::Packet,
};

/// Whether a source, or a prefix around it, may have leases, or demand that is counted. The filter
/// keeps all others from being looked for.
#[inline(always)]
pub fn may_be<A: FamilyMaps>(source: &A) -> bool {
    FILTERS
        .get(lease::filter_of(A::FAMILY))
        .is_some_and(|filter| filter.contains(source.filter_bit()))
}

/// Has a source looked for from now on, until user space clears its bit.
#[inline(always)]
fn mark<A: FamilyMaps>(source: &A) {
    if !may_be(source)
        && let Some(filter) = FILTERS.get_ptr_mut(lease::filter_of(A::FAMILY))
    {
        policy_ban::set_bit(filter, source.filter_bit());
    }
}

subprograms! {
    /// The index of a source's leased policy, which replaces the one with this scope.
    pub fn leased_by_source[leased_by_source_v4, leased_by_source_v6]<A>(
        source: &A, scope: u32, at: Instant
    ) -> u32 {
        leased(&LogKey::new(&SourceKey::new(*source, scope)), at)
    }

    /// Counts a packet's demand for a source's limits, from the first refusal on. The time does not
    /// matter.
    pub fn count_demand[count_demand_v4, count_demand_v6]<A>(
        source: &A, policy: &Policy, packet: Packet, demanded: Demanded
    ) {
        if demanded == Demanded::Refused {
            mark(source);
        }
        let key = LogKey::new(&SourceKey::new(*source, policy.scope()));
        count(&key, policy, &packet.arrived(Instant::default()), demanded);
    }

    /// The index of the node's leased policy, which replaces its own. Counts the demand of a packet
    /// that is about to be charged.
    pub fn leased_by_node(policy: &Policy, is_charged: bool; arrival) -> u32 {
        let key = node_key(policy.scope());
        let leased = leased(&key, arrival.at);
        if is_charged {
            count(&key, policy, arrival, Demanded::Admitted);
        }
        leased
    }

    /// Counts what a packet asked of the limits of the node, which refused it. Time does not
    /// matter.
    pub fn count_refused_by_node(policy: &Policy, packet: Packet) {
        let arrival = packet.arrived(Instant::default());
        count(&node_key(policy.scope()), policy, &arrival, Demanded::Refused);
    }
}

/// The index of the policy that a key has leased.
#[inline(always)]
fn leased(key: &LogKey, at: Instant) -> u32 {
    find(key).map_or(lease::NONE, |lease| lease.at(at))
}

#[inline(always)]
fn find(key: &LogKey) -> Option<&'static Lease> {
    // SAFETY: where user space puts another lease in its place, the memory may become one of
    // another key while this packet is judged. Any bytes are a lease, and a policy on other terms
    // does not hold.
    unsafe { LEASES.get(key) }
}

/// Counts what a packet asked. Only who is refused, or has a lease, is counted: so forged sources
/// do not churn what is counted.
#[inline(always)]
fn count(key: &LogKey, policy: &Policy, arrival: &Arrival, demanded: Demanded) {
    let demand = DEMANDS.get_ptr_mut(key);
    let is_refused = demanded == Demanded::Refused;
    let demand = demand.or_else(|| {
        let is_kept = is_refused || find(key).is_some();
        if is_kept { make(key) } else { None }
    });
    if let Some(demand) = demand {
        add(demand, policy, arrival, is_refused);
    }
}

#[inline(always)]
fn make(key: &LogKey) -> Option<*mut Demand> {
    // If another CPU inserted it first, that one is found.
    let _ = DEMANDS.insert(key, maps::empty(), BPF_NOEXIST.into());
    DEMANDS.get_ptr_mut(key)
}

#[inline(always)]
fn add(demand: *mut Demand, policy: &Policy, arrival: &Arrival, is_refused: bool) {
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        if let Some(cost) = limit.cost(arrival) {
            // SAFETY: an aligned word of a live map value.
            unsafe { atomic::add(word(demand, index, is_refused), cost) };
        }
    }
}

#[inline(always)]
fn word(demand: *mut Demand, index: usize, is_refused: bool) -> *mut u64 {
    let first = if is_refused { LIMITS_MAX } else { 0 };
    // SAFETY: a demand consists of two arrays with this many words, and the mask keeps the index
    // within one.
    unsafe {
        demand
            .cast::<u64>()
            .add(first)
            .add(index & (LIMITS_MAX - 1))
    }
}
