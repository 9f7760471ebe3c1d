//! The number of verified sources.

use std::time::Duration;

use ratelimit_common::{Instant, PassReason, Verdict};
use tracing::warn;

use crate::{clock, control::state::State};

/// They are counted again after so long, as some end, and else once in a second in which a source
/// proved itself.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// The sources that are verified, as they were counted last.
#[derive(Debug, Default)]
pub struct VerifiedSources {
    /// The time of the last count, and the number of proofs until then.
    counted: Option<(Instant, u64)>,
    count: u64,
}

impl VerifiedSources {
    /// Counts them, where something may have changed.
    pub fn look(&mut self, state: &State) {
        if state.intent.config.challenge.is_none() {
            *self = Self::default();
            return;
        }
        let datapath = state.enforcer.datapath();
        let Ok(counters) = datapath.counters() else {
            return;
        };
        let proofs = counters
            .iter()
            .filter(|row| row.verdict == Verdict::Pass(PassReason::Verified));
        let proofs: u64 = proofs.map(|row| row.count.packets).sum();
        let now = clock::now();
        let is_due = self.counted.is_none_or(|(at, before)| {
            let age = Duration::from_nanos(now.as_nanos().saturating_sub(at.as_nanos()));
            before != proofs || age >= COUNTED_EVERY
        });
        if !is_due {
            return;
        }
        let mut count = 0;
        let answer = datapath.challenge.for_each_verified(|_, verified| {
            count += u64::from(now < verified.until());
        });
        match answer {
            Ok(()) => (self.counted, self.count) = (Some((now, proofs)), count),
            Err(error) => warn!(%error, "cannot count the verified sources"),
        }
    }

    /// The number of verified sources.
    pub fn count(&self) -> u64 {
        self.count
    }
}
