//! Adopts the bans that policies made in the kernel: stores them, lengthens them, and enforces them
//! like manual ones.
//!
//! An event of the program is only a hint; the bans themselves are in a map of the kernel. So none
//! is lost if events are, or while no daemon runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use jiff::SignedDuration;
use ratelimit_common::{Instant, PolicyBan, policy_ban::BanResult};
use ratelimit_core::{
    api::{Changed, Refused},
    intent::{Edit, EntryRow, Offence},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::Feed;
use crate::{clock, control::state::State, protected::Requester};

/// The most sources whose lifted bans are reported.
const LIFTED_MAX: usize = 1024;

/// The beginning of the author of a ban.
const BY_POLICY: &str = "policy ";

/// The interval between reports of a would-be ban of a dry run, with the number of sources.
const WOULD_BE_EVERY: Duration = Duration::from_hours(1);
const WOULD_BE_MAX: usize = 4096;

/// The adopted bans.
#[derive(Clone, Debug, Default)]
pub struct PolicyBans {
    /// Adopted bans by policy, since the daemon started.
    pub by_policy: BTreeMap<String, u64>,
    /// The kernel's count of bans and the changes of the protected addresses at the last look.
    /// `None` forces another look.
    seen: Option<(u64, u64)>,
    /// Sources whose bans were lifted, as reported.
    lifted: BTreeSet<Prefix>,
    /// Sources that a dry run would have banned, and when that was reported.
    would_be: BTreeMap<Prefix, std::time::Instant>,
    /// Bans about to be adopted.
    due: Due,
}

/// Bans of the kernel to be processed.
#[derive(Clone, Debug, Default)]
struct Due {
    /// The policy of each adopted ban.
    policies: Vec<String>,
    /// All of them, for the kernel to remove.
    found: Vec<(IpAddr, PolicyBan)>,
    /// Sources that contain a protected address, for the kernel not to ban them again.
    exempt: Vec<IpAddr>,
    seen: (u64, u64),
}

impl PolicyBans {
    /// Forces a look for bans even if the kernel has counted none.
    pub fn force_check(&mut self) {
        self.seen = None;
    }

    /// Returns whether the lifted ban of a source is reported for the first time. A flooding source
    /// is banned again and again.
    fn is_first_report(&mut self, source: Prefix) -> bool {
        self.lifted.len() < LIFTED_MAX && self.lifted.insert(source)
    }

    /// Returns whether the would-be ban of a source was not reported for an hour, as it keeps
    /// recurring.
    fn is_first_dry_run_report(&mut self, source: Prefix) -> bool {
        let is_recent = |reported: &std::time::Instant| clock::elapsed(*reported) < WOULD_BE_EVERY;
        if self.would_be.get(&source).is_some_and(is_recent) {
            return false;
        }
        if self.would_be.len() >= WOULD_BE_MAX {
            self.would_be.retain(|_, reported| is_recent(reported));
        }
        let is_first_report = self.would_be.len() < WOULD_BE_MAX;
        if is_first_report {
            self.would_be.insert(source, clock::monotonic());
        }
        is_first_report
    }
}

/// Adopts all bans in the kernel and removes them there, or none. If the kernel has counted no
/// further ban, nothing is due.
impl Feed for PolicyBans {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let datapath = state.enforcer.datapath();
        // Read the count first: a ban in between leads to another look.
        let counted = datapath.policy_bans.tally()?.results[BanResult::Banned as usize];
        let seen = (counted, state.protection.changes());
        let mut due = Due {
            seen,
            ..Due::default()
        };
        if self.seen == Some(seen) {
            self.due = due;
            return Ok(Vec::new());
        }
        let mut edits = Vec::new();
        let contains_protected = |address: IpAddr| {
            let source = state.intent.config.source.around(address);
            state.protection.all().met_by(source).is_some()
        };
        due.found = datapath.policy_bans.all()?;
        due.found
            .retain(|(address, ban)| !ban.is_exempt() || !contains_protected(*address));
        for (address, ban) in &due.found {
            let source = state.intent.config.source.around(*address);
            if ban.is_exempt() {
                continue;
            }
            if contains_protected(*address) {
                due.exempt.push(*address);
            }
            if is_exempt(state, source) {
                if self.is_first_report(source) {
                    warn!(%source, "a policy banned a source that is allowed or contains a \
                                    protected address: lifted this ban");
                }
                continue;
            }
            let banned = state.intent.ban_of(source, &Origin::Automatic);
            if banned.is_some_and(|row| is_adopted(row, ban)) {
                continue;
            }
            let sentence = Sentence::new(state, source, ban);
            if state.intent.config.observe {
                if self.is_first_dry_run_report(source) {
                    let policy = &sentence.policy;
                    info!(%source, policy, "a policy would have banned a source, but is a dry run; \
                                            the next report is in an hour at the earliest");
                }
                continue;
            }
            // Detection may have banned it for longer in the meantime.
            let longer = banned.filter(|row| row.until > sentence.until);
            let ban = (longer.is_none() && now < sentence.until)
                .then(|| Edit::Ban(source, Origin::Automatic, Some(sentence.row())));
            edits.extend(ban);
            edits.push(Edit::Offence(source, Some(sentence.offence())));
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
            self.seen = Some(due.seen);
            state.forget_policy_bans(&due.found, &due.exempt)?;
            Ok(changed)
        });
        adopted.inspect_err(|refused| {
            self.force_check();
            let error = &refused.error;
            warn!(
                error,
                "cannot store the bans by policies; they are kept only in the kernel"
            );
        })
    }
}

/// Returns whether a source may never be banned automatically: because it is allowed as a whole, or
/// contains an address that this host needs. Bans by policies and by detection are vetted here.
pub fn is_exempt(state: &State, source: Prefix) -> bool {
    if state.protection.vet(source, Requester::Automatic).is_err() {
        return true;
    }
    source
        .supernets()
        .any(|prefix| state.intent.is_allowed(prefix))
}

/// The ban of a source by a policy.
pub struct Sentence {
    since: Instant,
    until: Instant,
    forget: Instant,
    policy: String,
    /// The number of bans of the source, including this one.
    bans: u32,
    reason: String,
}

impl Sentence {
    /// Derives the ban from one of the kernel and the offences of the source.
    pub fn new(state: &State, source: Prefix, ban: &PolicyBan) -> Self {
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

    /// Returns the row of the ban.
    pub fn row(&self) -> EntryRow {
        EntryRow {
            until: self.until,
            since: clock::to_wall(self.since),
            reason: Some(self.reason.as_str().into()),
            author: format!("{BY_POLICY}{}", self.policy).into(),
        }
    }

    const fn offence(&self) -> Offence {
        Offence {
            bans: self.bans,
            forget: self.forget,
        }
    }
}

/// Whether the row of an automatic ban is that of this ban of the kernel: a daemon that was killed
/// had stored it, and not yet removed it there.
fn is_adopted(row: &EntryRow, ban: &PolicyBan) -> bool {
    const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_millis(10);
    let since = clock::to_wall(Instant::from_nanos(ban.at_ns));
    row.author.starts_with(BY_POLICY) && row.since.duration_since(since).abs() < CLOCKS_DIFFER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_a_dry_run_would_ban_is_reported_once_an_hour() {
        let mut bans = PolicyBans::default();
        let source = "192.0.2.1".parse().unwrap();
        assert!(bans.is_first_dry_run_report(source));
        assert!(!bans.is_first_dry_run_report(source));
        assert!(bans.is_first_dry_run_report("192.0.2.2".parse().unwrap()));
        let reported = bans.would_be.get_mut(&source).unwrap();
        // The machine may have booted more recently than that.
        if let Some(before) = reported.checked_sub(WOULD_BE_EVERY) {
            *reported = before;
            assert!(bans.is_first_dry_run_report(source));
        }
    }

    #[test]
    fn a_source_whose_bans_are_lifted_is_reported_once() {
        let mut bans = PolicyBans::default();
        let gateway = "192.0.2.1".parse().unwrap();
        assert!(bans.is_first_report(gateway));
        assert!(!bans.is_first_report(gateway));
        assert!(bans.is_first_report("192.0.2.2".parse().unwrap()));
    }
}
