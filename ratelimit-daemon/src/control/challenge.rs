//! The moments at which the kernel begins to challenge sources, and ends it, as events; and whether anybody answers.

use ratelimit_common::{DropReason, Instant, PassReason, Verdict};
use ratelimit_core::api::What;
use tracing::{info, warn};

use super::{
    queries,
    state::State,
    troubles::{Loudness, Troubles},
};
use crate::clock;

/// The trouble that nobody who is challenged proves itself.
pub const UNANSWERED: &str = "challenge";

const WHY: &str = "nobody who is challenged proves itself: either all are forged, or what they answer does not come by this host, \
                   as with asymmetric routing; where ordinary clients cannot connect, write when = \"never\"";

/// So long nobody has to prove itself, and so many have to be challenged meanwhile.
const SILENCE_NS: u64 = 10_000_000_000;
const CHALLENGED_MIN: u64 = 1_000;

/// Whether sources were challenged when this was last looked at.
#[derive(Debug, Default)]
pub struct Challenge {
    was_on: bool,
    /// While there is a challenge.
    silence: Option<Silence>,
}

/// How many were challenged since anybody proved itself.
#[derive(Debug)]
struct Silence {
    since: Instant,
    counted: Counted,
    is_long: bool,
}

/// SYNs that were answered, and sources that proved themselves, since the program was loaded.
#[derive(Clone, Copy, Debug)]
struct Counted {
    challenged: u64,
    verified: u64,
}

impl Challenge {
    /// Tells what has changed.
    pub fn tick(&mut self, state: &mut State, troubles: &mut Troubles) {
        self.tell_whether_on(state);
        let counted = state
            .intent
            .config
            .challenge
            .and_then(|_| Counted::read(state));
        self.silence = counted.map(|counted| {
            let now = clock::now();
            let silence = self.silence.take();
            silence.map_or_else(
                || Silence::new(counted, now),
                |silence| silence.go_on(counted, now),
            )
        });
        let is_long = self.silence.as_ref().is_some_and(|it| it.is_long);
        let why = is_long.then(|| WHY.to_owned());
        troubles.report(&mut state.journal, UNANSWERED, Loudness::Warning, why);
    }

    /// One that is always on, or that there is not, changes by a reload alone.
    fn tell_whether_on(&mut self, state: &mut State) {
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
        state.journal.record(clock::wall(), what);
    }
}

impl Silence {
    const fn new(counted: Counted, since: Instant) -> Self {
        Self {
            since,
            counted,
            is_long: false,
        }
    }

    fn go_on(self, counted: Counted, now: Instant) -> Self {
        let challenged = counted.challenged.checked_sub(self.counted.challenged);
        let (Some(challenged), true) = (challenged, counted.verified == self.counted.verified)
        else {
            return Self::new(counted, now);
        };
        if now.as_nanos().saturating_sub(self.since.as_nanos()) < SILENCE_NS {
            return self;
        }
        Self {
            is_long: challenged >= CHALLENGED_MIN,
            ..Self::new(counted, now)
        }
    }
}

impl Counted {
    fn read(state: &State) -> Option<Self> {
        let rows = state.enforcer.datapath().counters().ok()?;
        let packets_of = |verdict| {
            let rows = rows.iter().filter(|row| row.verdict == verdict);
            rows.map(|row| row.count.packets).sum()
        };
        Some(Self {
            challenged: packets_of(Verdict::Drop(DropReason::Challenged)),
            verified: packets_of(Verdict::Pass(PassReason::Verified)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_who_are_challenged_and_nobody_who_proves_itself_is_silence() {
        let mut silence = Silence::new(
            Counted {
                challenged: 500,
                verified: 3,
            },
            Instant::from_nanos(0),
        );
        for (second, challenged, verified, is_long) in [
            (9, 9_000, 3, false),
            (10, 9_000, 3, true),
            (11, 9_100, 3, true),
            // One who proves itself ends it at once.
            (12, 9_200, 4, false),
            (21, 99_000, 4, false),
            (22, 99_000, 4, true),
            // Few are none.
            (32, 99_999, 4, false),
            (42, 100_999, 4, true),
            // The program was loaded anew.
            (43, 10, 0, false),
        ] {
            let counted = Counted {
                challenged,
                verified,
            };
            silence = silence.go_on(counted, Instant::from_nanos(second * 1_000_000_000));
            assert_eq!(silence.is_long, is_long, "{second} s");
        }
    }
}
