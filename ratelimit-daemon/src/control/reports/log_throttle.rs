//! Throttles log lines about a lasting condition: at once, and then each minute.

use crate::clock;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_mins(1);

/// The time of the last report. `None` while the condition does not hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reminder(Option<Instant>);

impl Reminder {
    /// Returns whether to report now. The caller must then do so.
    pub fn is_due(&mut self) -> bool {
        let is_due = self
            .0
            .is_none_or(|reported| clock::elapsed(reported) >= EVERY);
        if is_due {
            self.0 = Some(clock::monotonic());
        }
        is_due
    }

    /// Returns whether it was reported.
    pub const fn is_reported(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_reported_at_once_and_not_again_right_after() {
        let mut reminder = Reminder::default();
        assert!(reminder.is_due() && !reminder.is_due());
        reminder.0 = clock::monotonic().checked_sub(EVERY);
        assert!(reminder.is_due() && !reminder.is_due());
    }
}
