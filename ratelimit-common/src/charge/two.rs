//! Charges two limits with one word each, for example per second and per hour, as in most policies
//! with several limits. It is written out so that nothing is kept in memory between the check and
//! the charge, and both words are fetched in parallel.

use crate::{
    Arrival, Limit, Policy,
    charge::{outcome::Outcome, words::Words},
};

/// Charges a packet to a policy of two limits. `None`, and nothing is charged, where there are more
/// or fewer, where one does not count the packet or has no word, and where another CPU was faster.
/// `find` returns the word of the limit at an index, which is then read and written at index 0.
#[inline(always)]
pub fn charge_two<W: Words>(
    policy: &Policy,
    find: impl Fn(usize, &Limit) -> Option<W>,
    arrival: &Arrival,
) -> Option<Outcome> {
    if policy.len() != 2 {
        return None;
    }
    let (first, second) = (policy.limit(0)?, policy.limit(1)?);
    let (first_cost, second_cost) = (first.cost(arrival)?, second.cost(arrival)?);
    let first_place = find(0, first)?;
    let first_word = first_place.load(0);
    let Ok(first_next) = first.step(first_word, arrival.at, first_cost) else {
        return Some(Outcome::LIMITED.at(0));
    };
    let second_place = find(1, second)?;
    let second_word = second_place.load(0);
    let Ok(second_next) = second.step(second_word, arrival.at, second_cost) else {
        return Some(Outcome::LIMITED.at(1));
    };
    first_place
        .compare_exchange(0, first_word, first_next)
        .ok()?;
    if second_place
        .compare_exchange(0, second_word, second_next)
        .is_ok()
    {
        return Some(Outcome::PASSED);
    }
    Some(
        second_place
            .charge(second, 0, arrival.at, second_cost)
            .at(1),
    )
}
