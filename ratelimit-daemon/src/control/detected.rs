//! Bans that policies made in the kernel are taken over: kept in the database, lengthened, and enforced as those by hand are.
//!
//! An event of the program only says that there is something to take over; what it is lies in the kernel's map. So nothing is
//! lost when events are, or while there is no daemon.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_common::{
    Detected, Instant,
    detected::{Detection, Tally},
};
use ratelimit_core::{
    api::{Ban, Refused, StrikesView},
    intent::{BanRow, Edit, Offence},
    origin::Origin,
    policies::Named,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::{
    controller::Controller,
    queries::{self, views::unreadable},
    state::State,
};
use crate::{clock, protected::Word};

/// How many sources are told of whose bans are lifted.
const LIFTED_MAX: usize = 1024;

/// How often it is told that a dry run would have banned a source, and of how many sources.
const WOULD_BE_EVERY: Duration = Duration::from_hours(1);
const WOULD_BE_MAX: usize = 4096;

/// What the controller knows of the bans that it took over.
#[derive(Clone, Debug, Default)]
pub struct Detections {
    /// How many, by policy, since the daemon started.
    pub by_policy: BTreeMap<String, u64>,
    /// How many the kernel had made when they were last looked for.
    seen: u64,
    /// Whose bans were lifted, as it was told.
    lifted: BTreeSet<Prefix>,
    /// Whom a dry run would have banned, and when that was told.
    would_be: BTreeMap<Prefix, std::time::Instant>,
}

impl Detections {
    /// Whether a source whose ban is lifted was not told of before. One that floods is banned again and again.
    fn is_news(&mut self, source: Prefix) -> bool {
        self.lifted.len() < LIFTED_MAX && self.lifted.insert(source)
    }

    /// Whether a source that a dry run would have banned was not told of for an hour. It goes on, and would be again and again.
    fn is_news_of_dry_run(&mut self, source: Prefix) -> bool {
        let is_recent = |told: &std::time::Instant| told.elapsed() < WOULD_BE_EVERY;
        if self.would_be.get(&source).is_some_and(is_recent) {
            return false;
        }
        if self.would_be.len() >= WOULD_BE_MAX {
            self.would_be.retain(|_, told| is_recent(told));
        }
        let is_news = self.would_be.len() < WOULD_BE_MAX;
        if is_news {
            self.would_be.insert(source, std::time::Instant::now());
        }
        is_news
    }
}

impl State {
    /// Whether detection must not ban a source, whatever it does: an allow is for all of it, or this host needs an address of
    /// it. This is the one place where what is found by itself is vetted.
    pub(super) fn is_spared(&self, source: Prefix) -> bool {
        if self.protection.vet(source, Word::Detection).is_err() {
            return true;
        }
        source
            .supernets()
            .any(|prefix| self.intent.is_allowed(prefix))
    }

    /// What a source gets that a policy banned.
    fn sentence(&self, source: Prefix, ban: &Detected) -> Sentence {
        let found = self.policies.banning(ban.scope);
        let spec = found.and_then(|(_, named)| named.ban);
        let (until, Offence { bans, forget }) =
            Offence::next(self.intent.offence(source), ban, spec);
        let drops = if ban.strikes == 1 { "drop" } else { "drops" };
        let policy = found.map_or("[gone]", |(name, _)| name).to_owned();
        Sentence {
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

    /// The strikes of a source under its policy, if that bans.
    pub(super) fn strikes_view(
        &self,
        source: Prefix,
        named: &Named,
        word: u64,
        now: Instant,
    ) -> Option<StrikesView> {
        let rule = named.policy.ban()?;
        let offence = self.intent.offence(source);
        Some(StrikesView {
            strikes: rule.strikes(word, now),
            ban: named.ban?,
            bans: offence.map_or(0, |offence| offence.bans),
        })
    }

    /// The ban of a source that is with the kernel alone.
    pub(super) fn ban_in_kernel(&self, source: Prefix) -> Option<Ban> {
        let datapath = self.enforcer.datapath();
        let ban = datapath.detected(source.address()).ok().flatten()?;
        let sentence = self.sentence(source, &ban);
        let until = Instant::from_nanos(ban.until_ns);
        Some(queries::views::ban(
            source,
            &Origin::Detected,
            &BanRow {
                until,
                ..sentence.row()
            },
        ))
    }

    /// What became of the sources that policies were to ban.
    pub(super) fn tally(&self) -> Result<Tally, Refused> {
        self.enforcer.datapath().tally().map_err(unreadable)
    }
}

impl Controller {
    /// Takes over the bans that policies made, if there are any.
    ///
    /// # Errors
    ///
    /// Why they stay with the kernel alone, where they hold all the same.
    pub fn take_detected(&mut self) -> Result<usize, Refused> {
        // Counted first: a ban that comes in between is looked for once more.
        let seen = banned(&self.state.tally()?);
        let datapath = self.state.enforcer.datapath();
        let detected = datapath.all_detected().map_err(unreadable)?;
        if detected.is_empty() {
            self.detections.seen = seen;
            return Ok(0);
        }
        let now = clock::now();
        let mut edits = Vec::new();
        let mut taken = Vec::new();
        for (address, ban) in &detected {
            let source = queries::views::source_of(&self.state, *address);
            if self.state.is_spared(source) {
                if self.detections.is_news(source) {
                    warn!(%source, "a policy banned a source that is not to be banned: the ban is lifted, and so are later ones");
                }
                continue;
            }
            let sentence = self.state.sentence(source, ban);
            if self.state.intent.config.observe {
                if self.detections.is_news_of_dry_run(source) {
                    let policy = &sentence.policy;
                    info!(%source, policy, "a policy would have banned a source: nothing is kept of a dry run, and it is told again in an hour at the earliest");
                }
                continue;
            }
            edits.extend(sentence.edits(source, now));
            taken.push(sentence);
        }
        if !edits.is_empty() {
            self.state.edit(edits)?;
        }
        for sentence in &taken {
            let count = self.detections.by_policy.entry(sentence.policy.clone());
            *count.or_default() += 1;
        }
        let datapath = self.state.enforcer.datapath_mut();
        datapath.forget_detected(&detected).map_err(unreadable)?;
        self.detections.seen = seen;
        Ok(taken.len())
    }

    /// The same from time to time, when the kernel has made bans of which no event came.
    pub fn take_missed(&mut self) {
        let missed = self
            .state
            .tally()
            .map(|tally| banned(&tally) != self.detections.seen);
        let answer = match missed {
            Ok(false) => Ok(0),
            Ok(true) => self.take_detected(),
            Err(refused) => Err(refused),
        };
        if let Err(refused) = answer {
            warn!(
                error = refused.error,
                "bans by policies stay with the kernel alone"
            );
        }
    }
}

/// What a source gets.
struct Sentence {
    since: Instant,
    until: Instant,
    forget: Instant,
    policy: String,
    /// How many bans it had with this one.
    bans: u32,
    reason: String,
}

impl Sentence {
    fn row(&self) -> BanRow {
        BanRow {
            until: self.until,
            since: wall(self.since),
            reason: Some(self.reason.as_str().into()),
            author: format!("policy {}", self.policy).into(),
        }
    }

    /// The ban, unless it has ended, and what is remembered.
    fn edits(&self, source: Prefix, now: Instant) -> impl Iterator<Item = Edit> {
        let ban = (now < self.until).then(|| Edit::Ban(source, Origin::Detected, Some(self.row())));
        let offence = Offence {
            bans: self.bans,
            forget: self.forget,
        };
        ban.into_iter()
            .chain([Edit::Offence(source, Some(offence))])
    }
}

fn banned(tally: &Tally) -> u64 {
    tally.detections[Detection::Banned as usize]
}

fn wall(instant: Instant) -> Timestamp {
    clock::to_wall(instant)
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
        let told = detections.would_be.get_mut(&source).unwrap();
        // A machine that runs for less has no such moment.
        if let Some(before) = told.checked_sub(WOULD_BE_EVERY) {
            *told = before;
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
