//! Limits of the node, for all packets, and of a destination, for all packets to it, across all
//! CPUs.
//!
//! A word for all CPUs would move between their caches with each packet. A single locked bucket was
//! measured at 5 million packets per second on 96 CPUs, shares of each CPU at 148 million. So a CPU
//! draws a share of the limit at once, by the same compare-and-swap as any charge, and then spends
//! it alone, without atomic access. When the share is spent, it draws again. If there is no room
//! for a share, it draws the cost of the packet, so that the last part of a limit is used as well.
//!
//! # The bound of the error
//!
//! A share is the capacity of the limit divided by a power of two. The daemon chooses it so that
//! the shares of all CPUs together are at most [`SHARES_PART`] of it. Drawn shares are charged, so
//! the limit is never exceeded. The share of a window ends exactly with the window, and the burst
//! of a token bucket is reduced by the capacity of the shares. An unspent share is lost to the
//! other CPUs: at most [`SHARES_PART`] of the capacity is not admitted.
//!
//! A CPU draws at most as often as its share fits into the limit, `CPUs / SHARES_PART` times per
//! window and CPU, however many packets arrive; refused packets write nothing.

use core::hint;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    DropReason, Instant, Policy,
    arrival::Arrival,
    charge::{outcome::Outcome, words::Words},
    layout::{NODE_POLICIES, SHARED_MAX},
    limit::LIMITS_MAX,
};

/// All shares together are at most this part of a limit.
pub const SHARES_PART: u64 = 128;

/// The part of each limit of the node that is reserved for verified sources, if they are
/// [preferred](crate::challenge::Rules::prefers_verified).
pub const RESERVE_PART: u64 = 2;

/// The part of the time that is the turn of sources that are not verified. Capacity that becomes
/// free in it is for them, even if verified sources have used everything else.
pub const TURNS: u64 = 16;

/// A turn lasts 2^24 ns, 17 ms.
const TURN_SHIFT: u32 = 24;

/// The attempts to draw a share, each with [`ATTEMPTS`](crate::compare_and_swap::ATTEMPTS)
/// compare-and-swaps: when a window opens, all CPUs may want one at the same time.
pub const DRAWS_MAX: usize = 4;

/// A CPU's unspent share of a limit.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Share {
    /// Packets or bytes.
    left: u64,
    /// The expiry, in nanoseconds since boot.
    until_ns: u64,
    /// The scope of the policy that it was drawn from.
    scope: u64,
}

/// The shares of a CPU, one for each limit.
pub type Shares = [Share; LIMITS_MAX];

/// The state of the limits of node and destinations: words that all CPUs share, and the shares of
/// this one.
pub trait PooledLimits: Sized {
    /// The words.
    type Words: Words;

    /// The words of a policy.
    fn words(&self, policy: &Policy) -> Option<Self::Words>;

    /// Whether CPUs keep shares. If packets on one CPU can interrupt each other, two could spend
    /// the same share, so each draws its cost.
    #[inline(always)]
    fn keeps_shares(&self) -> bool {
        true
    }

    /// The share that this CPU has of the limit at `index` of a policy, or of one whose share has
    /// the same place.
    fn share(&self, policy: &Policy, index: usize) -> Share;

    /// Takes what a packet at `at` costs of the share of the first limit of a policy; `false`, and
    /// nothing is taken, where there is less.
    #[inline(always)]
    fn take(&self, policy: &Policy, cost: u64, at: Instant) -> bool {
        let mut share = self.share(policy, 0);
        let is_taken = share.take(policy.scope(), cost, at);
        self.set_share(policy, 0, share);
        is_taken
    }

    /// Changes a share in its place.
    fn change_share(&self, policy: &Policy, index: usize, change: impl Fn(Share) -> Share);

    /// Puts another share in its place.
    #[inline(always)]
    fn set_share(&self, policy: &Policy, index: usize, share: Share) {
        self.change_share(policy, index, |_| share);
    }

    /// The leased policy, if the nodes of a cluster share this one. Counts the demand of a packet
    /// that is about to be charged.
    #[inline(always)]
    fn leased<'a>(&'a self, policy: &'a Policy, _: &Arrival, _is_charged: bool) -> &'a Policy {
        policy
    }

    /// Counts what a packet asked of limits that the nodes share, and that refused it.
    #[inline(always)]
    fn count_refused(&self, _: &Policy, _: &Arrival) {}

    /// [`check`], wherever its code is kept.
    #[inline(always)]
    fn check(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        check(policy, self, arrival)
    }

    /// [`charge`], wherever its code is kept.
    #[inline(always)]
    fn charge(&self, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        charge(policy, self, arrival)
    }

    /// [`withheld`], wherever its code is kept.
    #[inline(always)]
    fn withheld(
        &self,
        policy: &Policy,
        index: usize,
        at: Instant,
        needs: u64,
        is_of_rest: bool,
    ) -> u64 {
        withheld(policy, self, index, at, needs, is_of_rest)
    }

    /// [`check_limit`], wherever its code is kept.
    #[inline(always)]
    fn check_limit(&self, policy: &Policy, index: usize, arrival: &Arrival) -> Outcome {
        check_limit(policy, self, index, arrival)
    }

    /// [`charge_limit`], wherever its code is kept.
    #[inline(always)]
    fn charge_limit(&self, policy: &Policy, index: usize, arrival: &Arrival) -> Outcome {
        charge_limit(policy, self, index, arrival)
    }
}

impl Share {
    /// Returns how much of a share drawn in `scope` a packet at `at` may spend.
    #[inline(always)]
    pub const fn left(&self, scope: u32, at: Instant) -> u64 {
        if self.scope == scope as u64 {
            self.left_at(at)
        } else {
            0
        }
    }

    /// Returns the rest of a share that is drawn under one scope only.
    #[inline(always)]
    pub const fn left_at(&self, at: Instant) -> u64 {
        if at.as_nanos() < self.until_ns {
            self.left
        } else {
            0
        }
    }

    /// Whether another scope can still spend it at `at`, so that its slot is not free.
    #[inline(always)]
    pub const fn is_of_another(&self, scope: u32, at: Instant) -> bool {
        self.left != 0 && self.scope != scope as u64 && at.as_nanos() < self.until_ns
    }

    /// Takes so much of it under `scope` at `at`; `false`, and nothing is taken, where there is
    /// less.
    #[inline(always)]
    pub const fn take(&mut self, scope: u32, cost: u64, at: Instant) -> bool {
        let left = self.left(scope, at);
        if left < cost {
            return false;
        }
        self.left = left.wrapping_sub(cost);
        true
    }

    /// Sets the remaining amount.
    #[inline(always)]
    pub const fn with_left(self, left: u64) -> Self {
        Self { left, ..self }
    }
}

/// Draws `share` of a budget that all CPUs share, or what is `needed` where there is less, and
/// spends what is needed of it. `counts_for_ns` returns how long a charge counts, see
/// [`Algorithm::counts_for_ns`](crate::algorithm::Algorithm::counts_for_ns). `charge` charges a
/// cost; its outcome does not name the limit.
///
/// # Errors
///
/// The refusal, which does not name the limit.
#[inline(always)]
pub fn draw_from(
    counts_for_ns: impl Fn() -> u64,
    charge: impl Fn(u64) -> Outcome,
    scope: u32,
    at: Instant,
    needed: u64,
    share: u64,
) -> Result<Share, Outcome> {
    let before_ns = counts_for_ns();
    // A packet older than the window would get a share that ends at once.
    let share = if before_ns == 0 {
        needed
    } else {
        share.max(needed)
    };
    let mut drawn = hint::black_box(share);
    // A compiler that knew where to begin would write the loop out.
    for _ in hint::black_box(0)..2 * DRAWS_MAX {
        let outcome = charge(drawn);
        if !outcome.is_refused() {
            // Another CPU may have opened the next window before or after the charge: the share
            // ends with the first of both.
            let valid_ns = counts_for_ns().min(before_ns);
            return Ok(Share {
                left: drawn.saturating_sub(needed),
                until_ns: at.as_nanos().saturating_add(valid_ns),
                scope: scope.into(),
            });
        }
        if outcome == Outcome::LIMITED {
            if drawn == needed {
                return Err(outcome);
            }
            drawn = needed;
        }
    }
    Err(Outcome::refused(DropReason::Contended, 0))
}

/// The power of two by which a capacity is divided into shares for `cpus` CPUs.
pub fn share_shift(cpus: u32) -> u8 {
    let parts = u64::from(cpus)
        .max(1)
        .saturating_mul(SHARES_PART)
        .next_power_of_two();
    u8::try_from(parts.trailing_zeros()).unwrap_or(u8::MAX)
}

/// Whether all limits of the node, or of a destination, that count a packet have room. It is not
/// charged.
#[inline(always)]
pub fn check(policy: Option<&Policy>, node: &impl PooledLimits, arrival: &Arrival) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let policy = node.leased(policy, arrival, false);
    for index in 0..LIMITS_MAX {
        if index >= policy.len() {
            break;
        }
        let outcome = node.check_limit(policy, index, arrival);
        if outcome.is_refused() {
            node.count_refused(policy, arrival);
            return outcome.at(index).observed_if(policy.observe());
        }
    }
    Outcome::PASSED
}

/// Whether the limit at `index` of a policy has room for a packet, if it counts it. The outcome
/// does not name the limit.
#[inline(always)]
pub fn check_limit(
    policy: &Policy,
    node: &impl PooledLimits,
    index: usize,
    arrival: &Arrival,
) -> Outcome {
    let Some(limit) = policy.limit(index) else {
        return Outcome::PASSED;
    };
    let Some(cost) = limit.cost(arrival) else {
        return Outcome::PASSED;
    };
    let is_of_node = !policy.is_of_destination();
    let is_of_rest = is_of_node && arrival.settings.is_excluded_from_reserve();
    let leaves = is_of_rest || is_of_node && arrival.settings.prefers_verified();
    // The drawn share may belong to the reserve, so a source that leaves the reserve reads the
    // words.
    let missing = if is_of_rest {
        cost
    } else {
        let share = node.share(policy, index);
        cost.saturating_sub(share.left(policy.scope(), arrival.at))
    };
    if missing == 0 {
        return Outcome::PASSED;
    }
    let left = if leaves {
        node.withheld(policy, index, arrival.at, missing, is_of_rest)
    } else {
        0
    };
    let needed = missing.saturating_add(left);
    let outcome = node.words(policy).map_or(NO_STATE, |words| {
        words.check(limit, index, arrival.at, needed)
    });
    outcome.by(reason(policy))
}

/// Returns how much of the limit at `index` of a policy must remain, besides what a packet `needs`
/// at `at`. The rest, whose sources are not verified, leave the [reserve](RESERVE_PART). In the
/// rest's [turn](TURNS), all others leave a floor, and if less than twice the floor remains, the
/// rest leave nothing.
#[inline(always)]
pub fn withheld(
    policy: &Policy,
    node: &impl PooledLimits,
    index: usize,
    at: Instant,
    needs: u64,
    is_of_rest: bool,
) -> u64 {
    let (Some(limit), Some(words)) = (policy.limit(index), node.words(policy)) else {
        return 0;
    };
    let reserve = limit.capacity() / RESERVE_PART;
    if at.as_nanos() >> TURN_SHIFT & (TURNS - 1) != 0 {
        return if is_of_rest { reserve } else { 0 };
    }
    // A quarter of the capacity that becomes free in a turn. More would be taken from the future of
    // verified sources.
    let comes_free = limit.algorithm().comes_free(1 << (TURN_SHIFT - 2));
    let floor = comes_free.min(limit.capacity() / TURNS);
    if !is_of_rest {
        return floor;
    }
    let needed = floor.saturating_mul(2).saturating_add(needs);
    if words.check(limit, index, at, needed).is_refused() {
        0
    } else {
        reserve
    }
}

/// This CPU's drawn share does not cover the packet.
pub const NOT_DRAWN: Outcome = Outcome::LIMITED;

/// Spends the cost of a packet from this CPU's drawn shares of all limits of both policies, those
/// of the node and of its destination. [`NOT_DRAWN`], without spending anything, if one does not
/// cover it.
#[inline(always)]
pub fn spend(both: [Option<&Policy>; 2], node: &impl PooledLimits, arrival: &Arrival) -> Outcome {
    let is_drawn = |policy: Option<&Policy>| is_drawn(policy, node, arrival);
    if !both.into_iter().all(is_drawn) {
        return NOT_DRAWN;
    }
    both.into_iter().fold(Outcome::UNCOUNTED, |said, policy| {
        said.more_specific(change_shares(policy, node, arrival, u64::saturating_sub))
    })
}

/// Spends from a policy with one limit, which is cheap. [`NOT_DRAWN`] for other policies too.
#[inline(always)]
pub fn spend_one(policy: Option<&Policy>, node: &impl PooledLimits, arrival: &Arrival) -> Outcome {
    let Some(policy) = policy.filter(|policy| concerns(policy, arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let Some(limit) = policy.limit(0).filter(|_| policy.len() == 1) else {
        return NOT_DRAWN;
    };
    let cost = limit.cost_of_counted(arrival);
    if may_spend(policy, arrival) && node.take(policy, cost, arrival.at) {
        Outcome::PASSED
    } else {
        NOT_DRAWN
    }
}

/// Gives back what was [spent](spend) for a packet that other limits refuse.
#[inline(always)]
pub fn give_back(both: [Option<&Policy>; 2], node: &impl PooledLimits, arrival: &Arrival) {
    for policy in both {
        change_shares(policy, node, arrival, u64::saturating_add);
    }
}

/// Changes this CPU's share of each limit of a policy that counts a packet by its cost.
#[inline(always)]
fn change_shares(
    policy: Option<&Policy>,
    node: &impl PooledLimits,
    arrival: &Arrival,
    change: impl Fn(u64, u64) -> u64,
) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        if let Some(cost) = limit.cost(arrival) {
            node.change_share(policy, index, |share| {
                share.with_left(change(share.left, cost))
            });
        }
    }
    Outcome::PASSED
}

/// Whether this CPU has drawn what a packet costs, of each limit of a policy that counts it.
#[inline(always)]
fn is_drawn(policy: Option<&Policy>, node: &impl PooledLimits, arrival: &Arrival) -> bool {
    let Some(policy) = policy.filter(|policy| concerns(policy, arrival)) else {
        return true;
    };
    if !may_spend(policy, arrival) {
        return false;
    }
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        let Some(cost) = limit.cost(arrival) else {
            continue;
        };
        let share = node.share(policy, index);
        if share.left(policy.scope(), arrival.at) < cost {
            return false;
        }
    }
    true
}

/// Whether a policy applies to a packet. Even if its own limits do not count it, each source's
/// limits to the destination may.
#[inline(always)]
fn concerns(policy: &Policy, arrival: &Arrival) -> bool {
    policy.counts(arrival) || policy.has_further()
}

/// Whether a packet that a policy counts may spend the drawn share. A packet that leaves the
/// reserve reads the words; leased limits and each source's limits to a destination are other
/// policies.
#[inline(always)]
fn may_spend(policy: &Policy, arrival: &Arrival) -> bool {
    !policy.is_of_cluster()
        && !policy.has_further()
        && (policy.is_of_destination() || !arrival.settings.is_excluded_from_reserve())
}

/// Charges a packet to all limits of the node, or of a destination, that count it, and had room.
#[inline(always)]
pub fn charge(policy: Option<&Policy>, node: &impl PooledLimits, arrival: &Arrival) -> Outcome {
    let Some(policy) = policy.filter(|policy| policy.counts(arrival)) else {
        return Outcome::UNCOUNTED;
    };
    let policy = node.leased(policy, arrival, true);
    for index in 0..LIMITS_MAX {
        if index >= policy.len() {
            break;
        }
        let outcome = node.charge_limit(policy, index, arrival);
        if outcome.is_refused() {
            return outcome.at(index).observed_if(policy.observe());
        }
    }
    Outcome::PASSED
}

/// Charges a packet to the limit at `index` of a policy, if it counts it. The outcome does not name
/// the limit.
#[inline(always)]
pub fn charge_limit(
    policy: &Policy,
    node: &impl PooledLimits,
    index: usize,
    arrival: &Arrival,
) -> Outcome {
    let Some(limit) = policy.limit(index) else {
        return Outcome::PASSED;
    };
    let Some(cost) = limit.cost(arrival) else {
        return Outcome::PASSED;
    };
    let share = node.share(policy, index);
    let left = share.left(policy.scope(), arrival.at);
    if left < cost {
        return draw(policy, node, index, arrival.at, cost);
    }
    node.set_share(policy, index, share.with_left(left.saturating_sub(cost)));
    Outcome::PASSED
}

/// Draws a share of the limit at `index`, or just what is missing, beside what is left of the share
/// before, and spends `cost` of both. The outcome does not name the limit.
#[inline(always)]
pub fn draw(
    policy: &Policy,
    node: &impl PooledLimits,
    index: usize,
    at: Instant,
    cost: u64,
) -> Outcome {
    let Some(limit) = policy.limit(index) else {
        return NO_STATE;
    };
    let held = node.share(policy, index);
    let left = held.left(policy.scope(), at);
    let needed = cost.saturating_sub(left);
    // The share of another destination is kept: this one draws the cost of each packet, without a
    // share.
    let share = if node.keeps_shares() && !held.is_of_another(policy.scope(), at) {
        (limit.capacity().wrapping_shr(policy.share_shift().into())).max(1)
    } else {
        0
    };
    let Some(words) = node.words(policy) else {
        return NO_STATE;
    };
    let counts_for_ns = || words.counts_for_ns(limit, index, at);
    let charge = |cost| words.charge(limit, index, at, cost);
    match draw_from(counts_for_ns, charge, policy.scope(), at, needed, share) {
        Ok(drawn) => {
            if share != 0 {
                node.set_share(policy, index, drawn);
            }
            Outcome::PASSED
        }
        Err(outcome) => outcome.by(reason(policy)),
    }
}

/// Returns the slot for a policy's shares on a CPU. Policies of the node have their own slots,
/// destinations may share one.
#[inline(always)]
pub const fn share_place(policy: &Policy) -> u32 {
    const OTHERS: u32 = SHARED_MAX - NODE_POLICIES;
    if policy.slot() < SHARED_MAX {
        policy.slot()
    } else {
        NODE_POLICIES.wrapping_add(policy.slot() % OTHERS)
    }
}

/// The drop reason of a packet that a limit of this policy refuses.
#[inline(always)]
const fn reason(policy: &Policy) -> DropReason {
    if policy.is_of_destination() {
        DropReason::DestinationLimited
    } else {
        DropReason::NodeLimited
    }
}

const NO_STATE: Outcome = Outcome::refused(DropReason::NoState, 0);

#[cfg(test)]
mod tests;
