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

/// [`node::are_drawn`].
#[inline(always)]
pub fn are_drawn(
    own: Option<&Policy>,
    [of_node, destination]: [Option<&Policy>; 2],
    arrival: &Arrival,
) -> bool {
    let (of_node, destination) = (nullable(of_node), nullable(destination));
    let (at_ns, packet) = (arrival.at.as_nanos(), pack(arrival));
    are_shares_drawn(nullable(own), of_node, destination, at_ns, packet) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn are_shares_drawn(
    own: *const Policy,
    of_node: *const Policy,
    destination: *const Policy,
    at_ns: u64,
    packet: u64,
) -> u64 {
    let arrival = unpack(at_ns, packet);
    // SAFETY: the verifier holds callers to memory of these types, or null.
    let (own, both) = unsafe { (own.as_ref(), [of_node.as_ref(), destination.as_ref()]) };
    u64::from(node::are_drawn(own, both, &MapNode, &arrival))
}

/// [`node::charge`] of both policies.
#[inline(always)]
pub fn spend_shares(
    said: Outcome,
    [of_node, destination]: [Option<&Policy>; 2],
    arrival: &Arrival,
) -> Outcome {
    let (of_node, destination) = (nullable(of_node), nullable(destination));
    let (at_ns, packet) = (arrival.at.as_nanos(), pack(arrival));
    decode(spend_drawn_shares(
        of_node,
        destination,
        at_ns,
        packet,
        encode(said),
    ))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn spend_drawn_shares(
    of_node: *const Policy,
    destination: *const Policy,
    at_ns: u64,
    packet: u64,
    said: u64,
) -> u64 {
    let arrival = unpack(at_ns, packet);
    // SAFETY: as above.
    let both = unsafe { [of_node.as_ref(), destination.as_ref()] };
    let spent = both.map(|policy| node::charge(policy, &MapNode, &arrival));
    let [of_node, destination] = spent;
    encode(decode(said).or_more(of_node).or_more(destination))
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
