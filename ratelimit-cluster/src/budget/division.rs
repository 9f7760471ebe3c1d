//! One limit divided among nodes, in whole numbers.
//!
//! Each node has a part that grows with a level, and at least its claim. The level is the highest at which all parts together are
//! within the limit. So more claim or demand of one node lowers the level, and with it the part of each other one: this is the monotony
//! that the whole of [`crate::budget`] rests on. (Equal: max-min fairness, Bertsekas and Gallager, "Data Networks", 6.5.2.)

use super::Limit;

/// How a limit is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Each as much as it needs, up to the same level; what nobody needs is divided equally.
    Equal,
    /// Each in proportion to its demand.
    Proportional,
}

/// The fraction bits of the level of a proportional division.
const FRACTION: u32 = 20;

/// What a node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// At least this.
    pub claim: u64,
    /// By this the rest is divided; above the limit it counts as the limit.
    pub demand: u64,
}

/// The part of `mine`, where others wish as `others` tells, each so many times, and idle nodes keep `idle` in all.
/// # Examples
///
/// ```
/// use ratelimit_cluster::budget::{Division, Limit, division::{Wish, part}};
///
/// let limit = Limit { amount: 1000, division: Division::Equal };
/// let wish = |demand| Wish { claim: 0, demand };
/// // Two nodes that want much share what a third one leaves.
/// assert_eq!(part(&limit, wish(900), &[(wish(900), 1), (wish(200), 1)], 0), 400);
/// ```
#[must_use]
pub fn part(limit: &Limit, mine: Wish, others: &[(Wish, u64)], idle: u64) -> u64 {
    let fits = |level: u64| {
        let others = others
            .iter()
            .map(|(wish, times)| at_level(limit, *wish, level).saturating_mul(*times));
        let sum = others.fold(
            idle.saturating_add(at_level(limit, mine, level)),
            u64::saturating_add,
        );
        sum <= limit.amount
    };
    let (mut fitting, mut beyond) = (0, highest_level(limit) + 1);
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    at_level(limit, mine, fitting)
}

/// Above this level everybody would have more than the limit, or has no demand.
fn highest_level(limit: &Limit) -> u64 {
    match limit.division {
        Division::Equal => limit.amount.saturating_mul(2),
        Division::Proportional => limit.amount.saturating_add(1) << FRACTION,
    }
}

fn at_level(limit: &Limit, wish: Wish, level: u64) -> u64 {
    let demand = wish.demand.min(limit.amount);
    let part = match limit.division {
        // Above the limit all demands are satisfied, and each gets what the level is above it.
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
