//! What this node may admit of limits that the nodes of a cluster share, and what packets asked of them.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    Arrival, Policy,
    lease::{self, Demand, Lease},
    limit::LIMITS_MAX,
    source::LogKey,
};

use crate::{
    atomic,
    maps::{DEMANDS, LEASES, NO_DEMAND},
};

/// The index of the policy that a key has leased. What a packet asks that is about to be charged is counted.
#[inline(always)]
pub fn leased(key: &LogKey, policy: &Policy, arrival: &Arrival, is_charged: bool) -> u32 {
    let leased = find(key).map_or(lease::NONE, |lease| lease.at(arrival.at));
    if is_charged {
        let demand = DEMANDS.get_ptr_mut(key);
        if let Some(demand) = demand.or_else(|| (leased != lease::NONE).then(|| make(key))?) {
            count(demand, policy, arrival, false);
        }
    }
    leased
}

#[inline(always)]
fn find(key: &LogKey) -> Option<&'static Lease> {
    // SAFETY: where user space puts another lease in its place, the memory may become one of another key while this packet is judged. Any
    // bytes are a lease, and a policy on other terms does not hold.
    unsafe { LEASES.get(key) }
}

/// Counts what a packet asked that a policy refused. Only who is refused, or has a lease, is counted: so forged sources do not churn what is
/// counted.
#[inline(always)]
pub fn count_refused(key: &LogKey, policy: &Policy, arrival: &Arrival) {
    if let Some(demand) = DEMANDS.get_ptr_mut(key).or_else(|| make(key)) {
        count(demand, policy, arrival, true);
    }
}

#[inline(always)]
fn make(key: &LogKey) -> Option<*mut Demand> {
    // Where another CPU made it first, that one is found.
    let _ = DEMANDS.insert(key, NO_DEMAND.get(0)?, BPF_NOEXIST.into());
    DEMANDS.get_ptr_mut(key)
}

#[inline(always)]
fn count(demand: *mut Demand, policy: &Policy, arrival: &Arrival, is_refused: bool) {
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
    // SAFETY: a demand is two arrays of so many words, and the mask keeps the index within one.
    unsafe {
        demand
            .cast::<u64>()
            .add(first)
            .add(index & (LIMITS_MAX - 1))
    }
}
