//! Charges two limits with one word each, for example per second and per hour, as in most policies
//! with several limits. It is written out so that nothing is kept in memory between the check and
//! the charge, and both words are fetched in parallel.

use crate::{Arrival, Instant, Limit, Policy, charge::outcome::Outcome};

/// The words of a source's limits.
pub trait Places {
    /// A word in place.
    type Word: InPlace;

    /// The word of the limit at `index`; `None` when the source has none.
    fn find(&self, index: usize, limit: &Limit) -> Option<Self::Word>;
}

/// The word of a limit, in place.
pub trait InPlace {
    /// The word.
    fn word(&self) -> u64;

    /// Replaces `current` by `new`.
    ///
    /// # Errors
    ///
    /// The current word.
    fn exchange(&self, current: u64, new: u64) -> Result<(), u64>;

    /// Charges `cost` to it, however often that takes. The outcome does not name the limit.
    fn charge(&self, limit: &Limit, at: Instant, cost: u64) -> Outcome;
}

/// Charges a packet to a policy of two limits. `None`, and nothing is charged, where there are more
/// or fewer, where one does not count the packet or has no word, and where another CPU was faster.
#[inline(always)]
pub fn charge_two(policy: &Policy, places: &impl Places, arrival: &Arrival) -> Option<Outcome> {
    if policy.len() != 2 {
        return None;
    }
    let (first, second) = (policy.limit(0)?, policy.limit(1)?);
    let (first_cost, second_cost) = (first.cost(arrival)?, second.cost(arrival)?);
    let first_place = places.find(0, first)?;
    let first_word = first_place.word();
    let Ok(first_next) = first.algorithm().step(first_word, arrival.at, first_cost) else {
        return Some(Outcome::LIMITED.at(0));
    };
    let second_place = places.find(1, second)?;
    let second_word = second_place.word();
    let Ok(second_next) = second
        .algorithm()
        .step(second_word, arrival.at, second_cost)
    else {
        return Some(Outcome::LIMITED.at(1));
    };
    first_place.exchange(first_word, first_next).ok()?;
    if second_place.exchange(second_word, second_next).is_ok() {
        return Some(Outcome::PASSED);
    }
    Some(second_place.charge(second, arrival.at, second_cost).at(1))
}
