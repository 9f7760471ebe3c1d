//! The limits of the node and of destinations, shared by all CPUs.

use ratelimit_common::{
    Arrival, Instant, Limit, Policy, Record,
    charge::{Outcome, Words},
    limit::LIMITS_MAX,
    node::{self, PooledLimits, Share, share_place},
};

use crate::{
    interruption, leases, limit_words,
    map_words::{MapRing, MapWord},
    maps::{NODE, NODE_SHARES, POLICIES},
    subprogram::Packet,
};

pub struct MapNode;

impl PooledLimits for MapNode {
    type Words = NodeWords;

    #[inline(always)]
    fn words(&self, policy: &Policy) -> Option<NodeWords> {
        NODE.get_ptr_mut(policy.slot()).map(NodeWords)
    }

    #[inline(always)]
    fn keeps_shares(&self) -> bool {
        !interruption::is_possible()
    }

    #[inline(always)]
    fn share(&self, policy: &Policy, index: usize) -> Share {
        let share = shares(policy).and_then(|shares| shares.get(index).copied());
        share.unwrap_or_default()
    }

    #[inline(always)]
    fn change_share(&self, policy: &Policy, index: usize, change: impl Fn(Share) -> Share) {
        if let Some(share) = shares(policy).and_then(|shares| shares.get_mut(index)) {
            *share = change(*share);
        }
    }

    #[inline(always)]
    fn take(&self, policy: &Policy, cost: u64, at: Instant) -> bool {
        shares(policy).is_some_and(|[first, ..]| first.take(policy.scope(), cost, at))
    }

    #[inline(always)]
    fn leased<'a>(&'a self, policy: &'a Policy, arrival: &Arrival, is_charged: bool) -> &'a Policy {
        if !policy.is_of_cluster() {
            return policy;
        }
        let leased = leases::leased_by_node(policy, is_charged, arrival);
        policy.or_leased(POLICIES.get(leased))
    }

    #[inline(always)]
    fn count_refused(&self, policy: &Policy, arrival: &Arrival) {
        if policy.is_of_cluster() {
            leases::count_refused_by_node(policy, Packet::of(arrival));
        }
    }

    #[inline(always)]
    fn check(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        check_node(policy, arrival)
    }

    #[inline(always)]
    fn charge(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        charge_node(policy, arrival)
    }

    #[inline(always)]
    fn withheld(
        &self,
        policy: &Policy,
        index: usize,
        at: Instant,
        needs: u64,
        is_of_rest: bool,
    ) -> u64 {
        let place = u64::from(is_of_rest) << u32::BITS | index as u64;
        withheld_of_limit(policy, place, at, needs)
    }

    #[inline(always)]
    fn check_limit(&self, policy: &Policy, index: usize, arrival: &Arrival) -> Outcome {
        check_node_limit(policy, index, arrival)
    }

    #[inline(always)]
    fn charge_limit(&self, policy: &Policy, index: usize, arrival: &Arrival) -> Outcome {
        charge_node_limit(policy, index, arrival)
    }
}

/// The shares of this CPU under a policy; `None` where programs interrupt each other, as another
/// one may use them.
#[inline(always)]
fn shares(policy: &Policy) -> Option<&'static mut [Share; LIMITS_MAX]> {
    if interruption::is_possible() {
        return None;
    }
    let shares = NODE_SHARES.get_ptr_mut(share_place(policy))?;
    // SAFETY: a live map value, which belongs to this CPU, where no other program uses it.
    Some(unsafe { &mut *shares })
}

/// The words of the node's limits, in an element of their map.
pub struct NodeWords(*mut Record);

impl NodeWords {
    #[inline(always)]
    fn word(&self, index: usize) -> MapWord {
        // SAFETY: the record is a live map value, and the mask keeps the index within it.
        MapWord(unsafe { self.0.cast::<u64>().add(index & (LIMITS_MAX - 1)) })
    }
}

impl Words for NodeWords {
    type Ring = MapRing;

    #[inline(always)]
    fn load(&self, index: usize) -> u64 {
        self.word(index).load(0)
    }

    #[inline(always)]
    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        self.word(index).compare_exchange(0, current, new)
    }

    #[inline(always)]
    fn check(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        limit_words::check_word(limit, self.word(index), at, cost)
    }

    #[inline(always)]
    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        limit_words::charge_word(limit, self.word(index), at, cost)
    }

    #[inline(always)]
    fn counts_for_ns(&self, limit: &Limit, index: usize, at: Instant) -> u64 {
        limit_words::counts_for_ns(limit, self.word(index), at)
    }
}

subprograms! {
    /// [`node::check`].
    fn check_node(policy: Option<&Policy>; arrival) -> Outcome {
        node::check(policy, &MapNode, arrival)
    }

    /// [`node::charge`].
    fn charge_node(policy: Option<&Policy>; arrival) -> Outcome {
        node::charge(policy, &MapNode, arrival)
    }

    /// [`node::spend`] of the policies at these indices; one that there is not is above all.
    pub fn spend_shares(of_node: u32, destination: u32; arrival) -> Outcome {
        node::spend(policies([of_node, destination]), &MapNode, arrival)
    }

    /// [`node::give_back`] of such policies. Time does not matter.
    pub fn give_shares_back(of_node: u32, destination: u32, packet: Packet) {
        let arrival = packet.arrived(Instant::default());
        node::give_back(policies([of_node, destination]), &MapNode, &arrival);
    }
}

#[inline(always)]
fn policies(both: [u32; 2]) -> [Option<&'static Policy>; 2] {
    both.map(|index| POLICIES.get(index))
}

subprograms! {
    /// Returns [`node::withheld`] of the limit at an index. A bit above the index says whether its
    /// rest is wanted.
    fn withheld_of_limit(policy: &Policy, place: u64, at: Instant, needs: u64) -> u64 {
        let is_of_rest = place >> u32::BITS != 0;
        let index = place as usize & (LIMITS_MAX - 1);
        node::withheld(policy, &MapNode, index, at, needs, is_of_rest)
    }

    /// [`node::check_limit`].
    fn check_node_limit(policy: &Policy, index: usize; arrival) -> Outcome {
        // Kernel 6.1 learns from a comparison about the register, not about the place on the stack
        // that it was read from. A mask comes before it is put there.
        node::check_limit(policy, &MapNode, index & (LIMITS_MAX - 1), arrival)
    }

    /// [`node::charge_limit`].
    fn charge_node_limit(policy: &Policy, index: usize; arrival) -> Outcome {
        // As above.
        node::charge_limit(policy, &MapNode, index & (LIMITS_MAX - 1), arrival)
    }
}
