//! Records when the kernel starts and stops challenging sources, and pauses the challenge for a
//! while if no client completes it.

pub mod status;

use jiff::Timestamp;
use ratelimit_common::{
    DropReason, Instant, PassReason, Verdict, challenge::options::ListenerOptions,
};
use ratelimit_core::api::What;
use tracing::{info, warn};

use super::verified::VerifiedSources;
use crate::{
    clock,
    control::{configuration::syncookies, state::State},
};

/// The name of the trouble that no client completes the challenge.
pub const UNANSWERED: &str = "challenge";
/// The name of the trouble that SYN-ACKs advertise options that listeners no longer keep.
const LISTENERS: &str = "options of SYN cookies";

const WHY: &str = "no client completes the challenge: either all are forged, or their answers do \
                   not arrive, for example with asymmetric routing; if real clients cannot \
                   connect, set when = \"never\"";

/// If a source passed the challenge in the last hour, answers do arrive, and silence comes from
/// forged sources.
const PROOF_NS: u64 = 3_600_000_000_000;

/// The challenge is paused after this time without a success, if enough sources were challenged.
const SILENCE_NS: u64 = 10_000_000_000;
const CHALLENGED_MIN: u64 = 1_000;
/// The limit if no source has passed for an hour: answers may also get lost on hosts with few
/// clients.
const SLOW_SILENCE_NS: u64 = 60_000_000_000;
const SLOW_CHALLENGED_MIN: u64 = 20;

/// The state of the challenge when it was last checked.
#[derive(Debug, Default)]
pub struct Challenge {
    /// For connections, and for DNS.
    was_on: [bool; 2],
    /// While sources are challenged, or would be if it were not paused.
    silence: Option<Silence>,
    /// The number of sources that had passed when it last changed, and when that was.
    proof: Option<(u64, Instant)>,
}

/// A period in which no challenged source has passed.
#[derive(Debug)]
struct Silence {
    since: Instant,
    counted: Counted,
    is_long: bool,
}

/// Answered SYNs and sources that passed, since the program was loaded.
#[derive(Clone, Copy, Debug)]
struct Counted {
    challenged: u64,
    verified: u64,
}

impl Challenge {
    /// Reports changes, and passes settings of listeners on to the program.
    pub fn tick(&mut self, state: &mut State, verified: &VerifiedSources) {
        let options = syncookies::listener_options(&state.intent.config);
        let error = follow_listeners(state, options);
        state.report(LISTENERS, error);
        let status = status::challenge(state, verified);
        let on = status.map(|it| {
            let dns = it.dns.map(|dns| (dns.is_on, dns.since, dns.when));
            [Some((it.is_on, it.since, it.when)), dns]
        });
        let [connections, queries] = on.unwrap_or_default();
        let is_on = [&connections, &queries];
        let is_on = is_on.into_iter().flatten().any(|(is_on, ..)| *is_on);
        self.report_change(connections, false, state);
        self.report_change(queries, true, state);
        let challenge = state.intent.config.challenge.as_ref();
        let counted = challenge.and_then(|_| Counted::read(state));
        let now = clock::now();
        let paused = status::paused_until(state);
        self.note_proof(counted, now);
        let silence = self.silence.take();
        self.silence = counted.and_then(|counted| {
            Silence::next(silence, counted, now, is_on, paused, self.is_proved(now))
        });
        if paused.is_none() && self.backs_off(now) {
            Self::pause(state);
        }
        let is_long = self.silence.as_ref().is_some_and(|it| it.is_long);
        let why = is_long.then(|| WHY.to_owned());
        state.report(UNANSWERED, why);
    }

    fn note_proof(&mut self, counted: Option<Counted>, now: Instant) {
        let verified = counted.map_or(0, |counted| counted.verified);
        let is_known = self.proof.is_some_and(|(count, _)| count == verified);
        if verified > 0 && !is_known {
            self.proof = Some((verified, now));
        }
    }

    /// Returns whether to pause: silence until the last check, and no success for long.
    fn backs_off(&self, now: Instant) -> bool {
        let silence = self.silence.as_ref();
        !self.is_proved(now) && silence.is_some_and(|it| it.is_long && it.since == now)
    }

    fn is_proved(&self, now: Instant) -> bool {
        self.proof
            .is_some_and(|(_, at)| now.as_nanos().saturating_sub(at.as_nanos()) < PROOF_NS)
    }

    fn pause(state: &mut State) {
        let challenge = state.intent.config.challenge.as_ref();
        let Some(back_off) = challenge.and_then(|it| it.back_off) else {
            return;
        };
        let until = clock::after(back_off);
        if let Err(error) = state.enforcer.datapath_mut().challenge.pause(until) {
            warn!(%error, "cannot pause the challenge");
            return;
        }
        let until = clock::to_wall(until);
        state.reports.record(What::ChallengePaused { until });
    }

    /// Reports a change. A challenge that is always on or off changes only with a reload.
    fn report_change(
        &mut self,
        on: Option<(bool, Option<Timestamp>, String)>,
        is_of_dns: bool,
        state: &mut State,
    ) {
        let when = on
            .filter(|(is_on, since, _)| *is_on && since.is_some())
            .map(|(_, _, when)| when);
        let was_on = &mut self.was_on[usize::from(is_of_dns)];
        if when.is_some() == *was_on {
            return;
        }
        *was_on = when.is_some();
        state.reports.record(match when {
            Some(when) => What::ChallengeBegan { when, is_of_dns },
            None => What::ChallengeEnded { is_of_dns },
        });
    }
}

/// Has SYN-ACKs advertise the options that listeners keep now, and returns why that failed.
fn follow_listeners(state: &mut State, options: Option<ListenerOptions>) -> Option<String> {
    let rules = state.enforcer.held().switched.challenge;
    if !rules.asks_listeners() || rules.listener_options() == options {
        return None;
    }
    match state.enforce_all() {
        Ok(_) => {
            info!(
                ?options,
                "TCP options of listeners with SYN cookies changed"
            );
            None
        }
        Err(error) => Some(format!(
            "SYN-ACKs advertise options that listeners no longer support: {error:#}"
        )),
    }
}

impl Silence {
    /// Returns the state after another check. Only time in which sources are challenged counts, as
    /// otherwise none can pass.
    fn next(
        before: Option<Self>,
        counted: Counted,
        now: Instant,
        is_on: bool,
        paused: Option<Instant>,
        is_proved: bool,
    ) -> Option<Self> {
        match before {
            // The result stays until the challenge was tried again.
            Some(silence) if paused.is_some() => Some(Self {
                is_long: silence.is_long,
                ..Self::new(counted, now)
            }),
            Some(silence) if is_on => Some(silence.go_on(counted, now, is_proved)),
            None if is_on || paused.is_some() => Some(Self::new(counted, now)),
            Some(_) | None => None,
        }
    }

    const fn new(counted: Counted, since: Instant) -> Self {
        Self {
            since,
            counted,
            is_long: false,
        }
    }

    fn go_on(self, counted: Counted, now: Instant, is_proved: bool) -> Self {
        let challenged = counted.challenged.checked_sub(self.counted.challenged);
        let (Some(challenged), true) = (challenged, counted.verified == self.counted.verified)
        else {
            return Self::new(counted, now);
        };
        // A challenge may be on while no client asks for a connection.
        if challenged == 0 && !self.is_long {
            return Self::new(counted, now);
        }
        let lasts = now.as_nanos().saturating_sub(self.since.as_nanos());
        let is_long = challenged >= CHALLENGED_MIN;
        let is_slow = !is_proved && lasts < SLOW_SILENCE_NS;
        if lasts < SILENCE_NS || !is_long && is_slow {
            return self;
        }
        Self {
            is_long: is_long || !is_proved && challenged >= SLOW_CHALLENGED_MIN,
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
            // A single success ends the silence.
            (12, 9_200, 4, false),
            (21, 99_000, 4, false),
            (22, 99_000, 4, true),
            // Too few were challenged.
            (32, 99_999, 4, false),
            (42, 100_999, 4, true),
            // The program was reloaded.
            (43, 10, 0, false),
        ] {
            let counted = Counted {
                challenged,
                verified,
            };
            silence = silence.go_on(counted, Instant::from_nanos(second * 1_000_000_000), true);
            assert_eq!(silence.is_long, is_long, "{second} s");
        }
    }

    #[test]
    fn only_time_in_which_sources_are_challenged_is_silence() {
        let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
        let counted = |challenged| Counted {
            challenged,
            verified: 0,
        };
        // A flood begins after a quiet minute, and no source is known to have passed.
        let mut silence = None;
        for second in 0..=120_u64 {
            let is_on = second >= 65;
            let challenged = second.saturating_sub(65) * 2_000;
            silence = Silence::next(silence, counted(challenged), at(second), is_on, None, false);
            let is_long = silence.as_ref().is_some_and(|it| it.is_long);
            assert_eq!(silence.is_some(), is_on, "{second} s");
            assert_eq!(is_long, second >= 75, "{second} s");
        }
        // It stays reported while the challenge is paused, and ends with the challenge.
        let until = Some(at(180));
        let paused = Silence::next(silence, counted(200_000), at(121), false, until, false);
        assert!(paused.as_ref().is_some_and(|it| it.is_long));
        assert!(Silence::next(paused, counted(200_000), at(180), false, None, false).is_none());
    }

    #[test]
    fn a_quiet_time_with_the_challenge_on_is_no_silence() {
        let mut silence = None;
        for second in 0..=120_u64 {
            let counted = Counted {
                challenged: second.saturating_sub(65) * 2_000,
                verified: 0,
            };
            let now = Instant::from_nanos(second * 1_000_000_000);
            silence = Silence::next(silence, counted, now, true, None, false);
            let is_long = silence.as_ref().is_some_and(|it| it.is_long);
            assert_eq!(is_long, second >= 75, "{second} s");
        }
    }

    #[test]
    fn few_are_silence_where_nobody_has_proved_itself_for_long() {
        for (is_proved, per_minute, is_long) in
            [(false, 20, true), (false, 19, false), (true, 20, false)]
        {
            let counted = |challenged| Counted {
                challenged,
                verified: 0,
            };
            let mut silence = Silence::new(counted(0), Instant::from_nanos(0));
            for second in 1..=120 {
                let now = Instant::from_nanos(second * 1_000_000_000);
                silence = silence.go_on(counted(second * per_minute / 60), now, is_proved);
                // The first is challenged after two seconds.
                assert_eq!(silence.is_long, is_long && second >= 62, "{second} s");
            }
        }
    }
}
