//! How often the log tells what lasts: at once, and then each minute.

use crate::clock;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_mins(1);

/// When something was reported last; never where it does not last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reminder(Option<Instant>);

impl Reminder {
    /// Whether it is to be reported now. Whoever asks tells it.
    pub fn is_due(&mut self) -> bool {
        let is_due = self
            .0
            .is_none_or(|reported| clock::elapsed(reported) >= EVERY);
        if is_due {
            self.0 = Some(clock::monotonic());
        }
        is_due
    }

    /// Whether it was reported.
    pub const fn is_reported(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_told_at_once_and_not_again_right_after() {
        let mut reminder = Reminder::default();
        assert!(reminder.is_due() && !reminder.is_due());
        reminder.0 = clock::monotonic().checked_sub(EVERY);
        assert!(reminder.is_due() && !reminder.is_due());
    }
}
