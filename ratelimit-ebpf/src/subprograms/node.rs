//! Charging the limits of the node.

use ratelimit_common::{Arrival, Instant, Policy, charge::Outcome, limit::LIMITS_MAX, node};

use super::{NOTHING, decode, encode, nullable, pack, unpack};
use crate::state::MapNode;

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
    // SAFETY: the verifier holds callers to memory of these types, or null.
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
