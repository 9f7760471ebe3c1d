//! The expiry of bans, allows, runtime limits, and further limits of attackers, in one index.
//!
//! An expiry is stored on the kernel's clock while the daemon runs, and on a clock of its own in
//! the database (`ban_clock.rs`), so steps of the wall clock, suspend and reboot do not move it.
//! Bans and allows expire in the kernel, with or without a daemon. Limits expire when the daemon
//! ends them; a starting daemon does so before any other change to the kernel.

use std::collections::BTreeSet;

use ratelimit_common::Instant;

use super::{Edit, EntryRow, FOREVER, Intent, Target};
use crate::{ip_family::IpFamily, origin::Origin, prefix::Prefix};

/// The kind of entry that expires.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Ending {
    /// Bans of a prefix, of any origin.
    Ban(Prefix),
    /// An allow.
    Allow(Prefix),
    /// Runtime limits.
    Limits(Target),
    /// A further limit.
    Limited(Prefix),
}

impl Edit {
    /// Returns the expiry of the new value, if it has one. Entries of lists and offences are
    /// forgotten separately.
    pub fn ending(&self) -> Option<(Instant, Ending)> {
        let (until, what) = match self {
            Self::Ban(prefix, _, Some(row)) => (row.until, Ending::Ban(*prefix)),
            Self::Allow(prefix, Some(row)) => (row.until, Ending::Allow(*prefix)),
            Self::Limits(target, Some(row)) => (row.entry.until, Ending::Limits(*target)),
            Self::Limited(prefix, Some(row)) => (row.until, Ending::Limited(*prefix)),
            Self::Ban(..)
            | Self::Allow(..)
            | Self::Limits(..)
            | Self::Limited(..)
            | Self::List(..)
            | Self::Offence(..)
            | Self::Config(_)
            | Self::PassAll(_) => return None,
        };
        (until != FOREVER).then_some((until, what))
    }
}

impl Intent {
    /// Replaces the expiry of the old value with that of the new one.
    pub(super) fn note_ends(
        &mut self,
        gone: Option<(Instant, Ending)>,
        come: Option<(Instant, Ending)>,
    ) {
        if let Some((until, what)) = gone.filter(|_| gone != come)
            && !self.is_shared(until, what)
        {
            self.ends.remove(&(until, what));
        }
        self.ends.extend(come);
    }

    /// Returns edits that remove everything expired at `now`, soonest first.
    pub fn ended(&self, now: Instant) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (until, what) in self.ends.iter().take_while(|(until, _)| *until <= now) {
            match *what {
                Ending::Ban(prefix) => {
                    let bans = self.bans_ending_at(*until, prefix);
                    edits.extend(bans.map(|(_, origin)| Edit::Ban(prefix, origin.clone(), None)));
                }
                Ending::Allow(prefix) => edits.push(Edit::Allow(prefix, None)),
                Ending::Limits(target) => edits.push(Edit::Limits(target, None)),
                Ending::Limited(prefix) => edits.push(Edit::Limited(prefix, None)),
            }
        }
        edits
    }

    /// The bans that end, the soonest first.
    pub fn ending_bans(&self) -> impl Iterator<Item = (Prefix, &Origin)> {
        let bans = self.ends.iter().filter_map(|(until, what)| match what {
            Ending::Ban(prefix) => Some(self.bans_ending_at(*until, *prefix)),
            Ending::Allow(_) | Ending::Limits(_) | Ending::Limited(_) => None,
        });
        bans.flatten()
    }

    /// The ends of the bans of prefixes about which only bans that may be evicted say anything, the
    /// soonest first. Those made here must satisfy `may_go`.
    pub fn evictable_only<'a>(
        &'a self,
        family: IpFamily,
        but: &'a BTreeSet<Prefix>,
        may_go: impl Fn(&EntryRow) -> bool + 'a,
    ) -> impl Iterator<Item = Edit> + 'a {
        let ends = self.ending_bans().filter(move |(prefix, origin)| {
            IpFamily::of(prefix.address()) == family
                && origin.is_unrequested()
                && !but.contains(prefix)
                && self.bans_of(*prefix).count() == 1
                && !self.is_allowed(*prefix)
                && self.policy_name(*prefix).is_none()
                && (**origin != Origin::Automatic
                    || self.ban_of(*prefix, origin).is_some_and(&may_go))
        });
        ends.map(|(prefix, origin)| Edit::Ban(prefix, origin.clone(), None))
    }

    /// Whether a ban of another origin ends at the same time.
    fn is_shared(&self, until: Instant, what: Ending) -> bool {
        match what {
            Ending::Ban(prefix) => self.bans_ending_at(until, prefix).next().is_some(),
            Ending::Allow(_) | Ending::Limits(_) | Ending::Limited(_) => false,
        }
    }

    fn bans_ending_at(
        &self,
        until: Instant,
        prefix: Prefix,
    ) -> impl Iterator<Item = (Prefix, &Origin)> {
        let bans = self.bans_of(prefix);
        let ending = bans.filter(move |(_, row)| row.until == until);
        ending.map(move |(origin, _)| (prefix, origin))
    }
}
