//! Charging the limits of the node.

use ratelimit_common::{Arrival, Instant, Policy, charge::Outcome, limit::LIMITS_MAX, node};

use super::{NOTHING, decode, encode, nullable, pack, unpack};
use crate::{map_words::MapNode, maps::POLICIES};

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

/// [`node::spend`] of the policies at these indices; one that there is not is above all.
#[inline(always)]
pub fn spend_shares(both: [u32; 2], arrival: &Arrival) -> Outcome {
    decode(spend_node_shares(
        pack_indices(both),
        arrival.at.as_nanos(),
        pack(arrival),
    ))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn spend_node_shares(indices: u64, at_ns: u64, packet: u64) -> u64 {
    let arrival = unpack(at_ns, packet);
    encode(node::spend(policies(indices), &MapNode, &arrival))
}

/// [`node::give_back`] of such policies.
#[inline(always)]
pub fn give_shares_back(both: [u32; 2], arrival: &Arrival) {
    give_node_shares_back(pack_indices(both), pack(arrival));
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn give_node_shares_back(indices: u64, packet: u64) -> u64 {
    // Time does not matter. An argument that nothing reads would be a register that nothing has
    // written, which the verifier refuses.
    node::give_back(policies(indices), &MapNode, &unpack(0, packet));
    0
}

#[inline(always)]
fn pack_indices([of_node, destination]: [u32; 2]) -> u64 {
    u64::from(destination) << u32::BITS | u64::from(of_node)
}

#[inline(always)]
fn policies(indices: u64) -> [Option<&'static Policy>; 2] {
    [indices as u32, (indices >> u32::BITS) as u32].map(|index| POLICIES.get(index))
}

/// [`node::left_alone`].
#[inline(always)]
pub fn left_alone(policy: &Policy, index: usize, at: Instant, needs: u64, is_of_rest: bool) -> u64 {
    let place = u64::from(is_of_rest) << u32::BITS | index as u64;
    leave_of_node_limit(policy, place, at.as_nanos(), needs)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn leave_of_node_limit(
    policy: *const Policy,
    place: u64,
    at_ns: u64,
    needs: u64,
) -> u64 {
    // SAFETY: as above.
    let Some(policy) = (unsafe { policy.as_ref() }) else {
        return 0;
    };
    let is_of_rest = place >> u32::BITS != 0;
    let index = place as usize & (LIMITS_MAX - 1);
    let at = Instant::from_nanos(at_ns);
    node::left_alone(policy, &MapNode, index, at, needs, is_of_rest)
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
