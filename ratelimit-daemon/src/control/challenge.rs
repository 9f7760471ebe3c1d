//! The moments at which the kernel begins to challenge sources, and ends it, as events.

use jiff::Timestamp;
use ratelimit_core::api::What;
use tracing::{info, warn};

use super::{queries, state::State};

/// Whether sources were challenged when this was last looked at.
#[derive(Debug, Default)]
pub struct Challenge {
    was_on: bool,
}

impl Challenge {
    /// Tells what has changed. One that is always on, or that there is not, changes by a reload alone.
    pub fn tick(&mut self, state: &mut State) {
        let status = queries::challenge::challenge(state);
        let status = status.filter(|status| status.since.is_some() || !status.is_on);
        let is_on = status.as_ref().is_some_and(|status| status.is_on);
        if is_on == self.was_on {
            return;
        }
        self.was_on = is_on;
        let what = if let Some(status) = status.filter(|_| is_on) {
            let when = status.when;
            warn!(when, "TCP sources that are not verified are challenged");
            What::ChallengeBegan { when }
        } else {
            info!("nobody is challenged any more");
            What::ChallengeEnded
        };
        state.journal.record(Timestamp::now(), what);
    }
}
