//! The bans that detection may make in a minute, by policies in the kernel and by the daemon together.
//!
//! The kernel counts its own and knows nothing of the daemon's. So its limit is what the daemon leaves of the minute, and what
//! the kernel did counts here as soon as it is known.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

const MINUTE: Duration = Duration::from_mins(1);
/// What came so close together counts as one, so that at most 60 of them are remembered.
const STEP: Duration = Duration::from_secs(1);

/// What was taken of it in the last minute.
#[derive(Clone, Debug, Default)]
pub struct BanBudget(VecDeque<Taken>);

#[derive(Clone, Copy, Debug)]
struct Taken {
    at: Instant,
    by_daemon: u32,
    by_kernel: u32,
}

impl BanBudget {
    /// Takes one for the daemon, where any of `most` is left at `now`.
    pub fn take(&mut self, most: u32, now: Instant) -> bool {
        self.forget(now);
        let taken = self.0.iter().map(|taken| taken.by_daemon + taken.by_kernel);
        if taken.fold(0, u32::saturating_add) >= most {
            return false;
        }
        self.last(now).by_daemon += 1;
        true
    }

    /// Notes how many the kernel took.
    pub fn charge_kernel(&mut self, count: usize, now: Instant) {
        self.forget(now);
        let last = self.last(now);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        last.by_kernel = last.by_kernel.saturating_add(count);
    }

    /// What the daemon leaves the kernel of `most`.
    #[must_use]
    pub fn left_for_kernel(&self, most: u32, now: Instant) -> u32 {
        let recent = self.0.iter().filter(|taken| taken.is_of_minute(now));
        recent.fold(most, |left, taken| left.saturating_sub(taken.by_daemon))
    }

    /// Whether there is anything that the kernel may have to be told: something counts at `now`, or has ceased to.
    pub fn is_in_use(&mut self, now: Instant) -> bool {
        let was_used = !self.0.is_empty();
        self.forget(now);
        was_used
    }

    fn forget(&mut self, now: Instant) {
        while self
            .0
            .pop_front_if(|taken| !taken.is_of_minute(now))
            .is_some()
        {}
    }

    /// What is taken at `now`.
    fn last(&mut self, now: Instant) -> &mut Taken {
        let is_now = |last: &Taken| now.saturating_duration_since(last.at) < STEP;
        if !self.0.back().is_some_and(is_now) {
            self.0.push_back(Taken {
                at: now,
                by_daemon: 0,
                by_kernel: 0,
            });
        }
        self.0.back_mut().expect("it was put there")
    }
}

impl Taken {
    fn is_of_minute(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < MINUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_takes_what_the_kernel_left_and_the_other_way_round() {
        let (mut budget, now) = (BanBudget::default(), Instant::now());
        budget.charge_kernel(3, now);
        assert!(budget.take(5, now));
        assert_eq!(budget.left_for_kernel(5, now), 4);
        assert!(budget.take(5, now));
        assert!(!budget.take(5, now));
        assert_eq!(budget.left_for_kernel(5, now), 3);
    }

    #[test]
    fn what_was_taken_counts_for_a_minute() {
        let (mut budget, first) = (BanBudget::default(), Instant::now());
        let later = first + MINUTE / 2;
        assert!(budget.take(2, first));
        assert!(budget.take(2, later));
        let over = first + MINUTE;
        assert_eq!(budget.left_for_kernel(2, over), 1);
        assert!(budget.take(2, over));
        assert!(!budget.take(2, over));
        assert_eq!(budget.left_for_kernel(2, over + MINUTE), 2);
    }
}
