//! Which slot of the counters an interface has.

use ratelimit_common::layout::INTERFACES_MAX;

/// The lowest slot that nobody has; `None` where all are taken.
pub fn lowest_free(taken: &[u32]) -> Option<u32> {
    (0..INTERFACES_MAX).find(|slot| !taken.contains(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_slot_that_is_free_is_given_as_long_as_there_is_one() {
        assert_eq!(lowest_free(&[0, 2]), Some(1));
        let all: Vec<u32> = (0..INTERFACES_MAX).collect();
        assert_eq!(lowest_free(&all), None);
    }
}
