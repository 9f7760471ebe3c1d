//! Divides a limit among nodes, in integers.
//!
//! Each node has a part that grows with a level, and is at least its claim. The level is the
//! highest at which the sum of all parts is within the limit. So a larger claim or demand of one
//! node lowers the level, and with it the parts of all others. [`crate::budget`] relies on this
//! monotonicity. (Equal: max-min fairness, Bertsekas and Gallager, "Data Networks", 6.5.2.)

use super::Limit;

/// The division of a limit among nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Each node gets its demand, up to a common level. The unneeded rest is divided equally.
    Equal,
    /// Each node gets a part in proportion to its demand.
    Proportional,
}

/// The fraction bits of the level of a proportional division.
const FRACTION: u32 = 20;

/// The request of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// The minimum.
    pub claim: u64,
    /// The weight for dividing the rest, capped at the limit.
    pub demand: u64,
    /// The position of the node among all, from 0. The remainder of an equal division goes to the
    /// first positions, one unit each.
    pub place: u64,
}

/// The parts of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The part of this node.
    pub mine: u64,
    /// The sum of all others, including what idle nodes keep.
    pub others: u64,
}

/// Returns the part of `mine` among `nodes`. `others` has the wishes of the others, each with its
/// number of nodes; idle nodes keep `idle` in total.
/// # Examples
///
/// ```
/// use ratelimit_cluster::budget::{Division, Limit, division::{Wish, divide}};
///
/// let limit = Limit { amount: 1000, division: Division::Equal, window: 1000 };
/// let wish = |demand, place| Wish { claim: 0, demand, place };
/// // Two nodes with a high demand share what a third one leaves.
/// let parts = divide(&limit, 3, wish(900, 0), &[(wish(900, 1), 1), (wish(200, 2), 1)], 0);
/// assert_eq!((parts.mine, parts.others), (400, 600));
/// ```
pub fn divide(limit: &Limit, nodes: u64, mine: Wish, others: &[(Wish, u64)], idle: u64) -> Parts {
    let nodes = nodes.max(1);
    let others_at = |step: u128| {
        let parts = others
            .iter()
            .map(|(wish, times)| at_step(limit, nodes, *wish, step).saturating_mul(*times));
        parts.fold(idle, u64::saturating_add)
    };
    let fits = |step: u128| {
        let mine = at_step(limit, nodes, mine, step);
        others_at(step).saturating_add(mine) <= limit.amount
    };
    let (mut fitting, mut beyond) = (
        0,
        (u128::from(highest_level(limit)) + 1) * u128::from(nodes),
    );
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    Parts {
        mine: at_step(limit, nodes, mine, fitting),
        others: others_at(fitting),
    }
}

/// Returns a level above which the parts would exceed the limit or no longer grow.
fn highest_level(limit: &Limit) -> u64 {
    match limit.division {
        Division::Equal => limit.amount.saturating_mul(2),
        Division::Proportional => limit.amount.saturating_add(1) << FRACTION,
    }
}

/// A level has as many steps as there are nodes: in each step, the node at the next position
/// reaches it.
fn at_step(limit: &Limit, nodes: u64, wish: Wish, step: u128) -> u64 {
    let ahead = nodes.saturating_sub(1).saturating_sub(wish.place);
    let level = (step + u128::from(ahead)) / u128::from(nodes);
    at_level(limit, wish, u64::try_from(level).unwrap_or(u64::MAX))
}

fn at_level(limit: &Limit, wish: Wish, level: u64) -> u64 {
    let demand = wish.demand.min(limit.amount);
    let part = match limit.division {
        // Above the limit all demands are satisfied, and each node gets the excess of the level on
        // top.
        Division::Equal => demand
            .min(level)
            .saturating_add(level.saturating_sub(limit.amount)),
        Division::Proportional => {
            let part = (u128::from(demand) * u128::from(level)) >> FRACTION;
            u64::try_from(part)
                .unwrap_or(u64::MAX)
                .min(limit.amount.saturating_add(1))
        }
    };
    part.max(wish.claim)
}
