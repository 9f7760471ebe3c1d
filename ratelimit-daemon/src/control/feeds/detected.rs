//! Bans that policies made in the kernel are adopted: kept in the database, lengthened, and enforced as manual ones are.
//!
//! An event of the program only says that there is something to adopt; what it is lies in the kernel's map. So nothing is
//! lost when events are, or while there is no daemon.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use ratelimit_common::{Detected, Instant, detected::Detection};
use ratelimit_core::{
    api::{Changed, Refused},
    intent::{Edit, EntryRow, Offence},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::Feed;
use crate::{clock, control::state::State, protected::Requester};

/// Of how many sources it is reported that their bans are lifted.
const LIFTED_MAX: usize = 1024;

/// How often it is reported that a dry run would have banned a source, and of how many sources.
const WOULD_BE_EVERY: Duration = Duration::from_hours(1);
const WOULD_BE_MAX: usize = 4096;

/// What the controller knows of the bans that it adopted.
#[derive(Clone, Debug, Default)]
pub struct Detections {
    /// How many, by policy, since the daemon started.
    pub by_policy: BTreeMap<String, u64>,
    /// How many the kernel had made when they were last looked for; `None` where they are to be looked for whatever it counted.
    counted: Option<u64>,
    /// Whose bans were lifted, as it was reported.
    lifted: BTreeSet<Prefix>,
    /// Whom a dry run would have banned, and when that was reported.
    would_be: BTreeMap<Prefix, std::time::Instant>,
    /// Those that are about to be adopted.
    due: Due,
}

/// What is to become of the bans that the kernel made.
#[derive(Clone, Debug, Default)]
struct Due {
    /// The policies of those that are adopted, one for each.
    policies: Vec<String>,
    /// All of them, which the kernel is to forget.
    found: Vec<(IpAddr, Detected)>,
    counted: u64,
}

impl Detections {
    /// Has them looked for although the kernel may have counted none.
    pub fn look_again(&mut self) {
        self.counted = None;
    }

    /// Whether a source whose ban is lifted was not reported before. One that floods is banned again and again.
    fn is_news(&mut self, source: Prefix) -> bool {
        self.lifted.len() < LIFTED_MAX && self.lifted.insert(source)
    }

    /// Whether a source that a dry run would have banned was not reported for an hour. It goes on, and would be again and again.
    fn is_news_of_dry_run(&mut self, source: Prefix) -> bool {
        let is_recent = |reported: &std::time::Instant| clock::elapsed(*reported) < WOULD_BE_EVERY;
        if self.would_be.get(&source).is_some_and(is_recent) {
            return false;
        }
        if self.would_be.len() >= WOULD_BE_MAX {
            self.would_be.retain(|_, reported| is_recent(reported));
        }
        let is_news = self.would_be.len() < WOULD_BE_MAX;
        if is_news {
            self.would_be.insert(source, clock::monotonic());
        }
        is_news
    }
}

/// Adopts the bans that there are, and has the kernel forget them: all, or none. Where the kernel counted no further one, none is due.
impl Feed for Detections {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let datapath = state.enforcer.datapath();
        // Counted first: a ban that comes in between is looked for once more.
        let counted = datapath.tally()?.detections[Detection::Banned as usize];
        let mut due = Due {
            counted,
            ..Due::default()
        };
        if self.counted == Some(counted) {
            self.due = due;
            return Ok(Vec::new());
        }
        let mut edits = Vec::new();
        due.found = datapath.all_detected()?;
        for (address, ban) in &due.found {
            let source = state.intent.config.source.around(*address);
            if is_exempt(state, source) {
                if self.is_news(source) {
                    warn!(%source, "a policy banned a protected source: lifted this ban; later ones are lifted too");
                }
                continue;
            }
            let sentence = Sentence::new(state, source, ban);
            if state.intent.config.observe {
                if self.is_news_of_dry_run(source) {
                    let policy = &sentence.policy;
                    info!(%source, policy, "a policy would have banned a source, but is a dry run; the next report is in an hour at the earliest");
                }
                continue;
            }
            edits.extend(sentence.edits(source, now));
            due.policies.push(sentence.policy);
        }
        self.due = due;
        Ok(edits)
    }

    fn settle(
        &mut self,
        state: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        let due = std::mem::take(&mut self.due);
        let adopted = answer.and_then(|changed| {
            for policy in due.policies {
                *self.by_policy.entry(policy).or_default() += 1;
            }
            self.counted = Some(due.counted);
            state.forget_detected(&due.found)?;
            Ok(changed)
        });
        adopted.inspect_err(|refused| {
            self.look_again();
            let error = &refused.error;
            warn!(
                error,
                "cannot store the bans by policies; they are kept only in the kernel"
            );
        })
    }
}

/// Whether detection must not ban a source, whatever it does: an allow is for all of it, or this host needs an address of
/// it. This is the one place where what is found by itself is vetted.
pub fn is_exempt(state: &State, source: Prefix) -> bool {
    if state.protection.vet(source, Requester::Detection).is_err() {
        return true;
    }
    source
        .supernets()
        .any(|prefix| state.intent.is_allowed(prefix))
}

/// What a source gets that a policy banned.
pub struct Sentence {
    since: Instant,
    until: Instant,
    forget: Instant,
    policy: String,
    /// How many bans it had with this one.
    bans: u32,
    reason: String,
}

impl Sentence {
    /// What the intent says of a ban of the kernel.
    pub fn new(state: &State, source: Prefix, ban: &Detected) -> Self {
        let found = state.compiled.policies.banning(ban.scope);
        let spec = found.and_then(|(_, named)| named.ban);
        let (until, Offence { bans, forget }) =
            Offence::next(state.intent.offence(source), ban, spec);
        let drops = if ban.strikes == 1 { "drop" } else { "drops" };
        let policy = found.map_or("[gone]", |(name, _)| name).to_owned();
        Self {
            since: Instant::from_nanos(ban.at_ns),
            until,
            forget,
            reason: format!(
                "{} {drops} by the limits of {policy}, ban {bans}",
                ban.strikes
            ),
            bans,
            policy,
        }
    }

    /// The ban as it is kept.
    pub fn row(&self) -> EntryRow {
        EntryRow {
            until: self.until,
            since: clock::to_wall(self.since),
            reason: Some(self.reason.as_str().into()),
            author: format!("policy {}", self.policy).into(),
        }
    }

    /// The ban, unless it has ended, and what is remembered.
    fn edits(&self, source: Prefix, now: Instant) -> impl Iterator<Item = Edit> + use<> {
        let ban = (now < self.until).then(|| Edit::Ban(source, Origin::Detected, Some(self.row())));
        let offence = Offence {
            bans: self.bans,
            forget: self.forget,
        };
        ban.into_iter()
            .chain([Edit::Offence(source, Some(offence))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_a_dry_run_would_ban_is_told_of_once_an_hour() {
        let mut detections = Detections::default();
        let source = "192.0.2.1".parse().unwrap();
        assert!(detections.is_news_of_dry_run(source));
        assert!(!detections.is_news_of_dry_run(source));
        assert!(detections.is_news_of_dry_run("192.0.2.2".parse().unwrap()));
        let reported = detections.would_be.get_mut(&source).unwrap();
        // A machine that runs for less has no such moment.
        if let Some(before) = reported.checked_sub(WOULD_BE_EVERY) {
            *reported = before;
            assert!(detections.is_news_of_dry_run(source));
        }
    }

    #[test]
    fn a_source_whose_bans_are_lifted_is_told_of_once() {
        let mut detections = Detections::default();
        let gateway = "192.0.2.1".parse().unwrap();
        assert!(detections.is_news(gateway));
        assert!(!detections.is_news(gateway));
        assert!(detections.is_news("192.0.2.2".parse().unwrap()));
    }
}
