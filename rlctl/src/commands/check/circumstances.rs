//! Expiry, author, start and reason of a ban, an allow or runtime limits.

use jiff::{Timestamp, Zoned};
use ratelimit_core::api::{Ban, CoveringEntry, Origin};

use crate::{output::printable, phrase};

/// The author, times and reason of an entry.
pub struct Circumstances<'a> {
    done: &'static str,
    author: String,
    until: Option<Timestamp>,
    since: Timestamp,
    reason: Option<&'a str>,
}

impl<'a> Circumstances<'a> {
    pub fn of_ban(ban: &'a Ban) -> Self {
        Self {
            done: "banned",
            author: phrase::author(ban),
            until: ban.until,
            since: ban.since,
            reason: ban.reason.as_deref(),
        }
    }

    /// Returns those of an allow or of runtime limits; `None` if the configuration set it.
    pub fn of_entry(entry: &'a CoveringEntry) -> Option<Self> {
        match entry {
            CoveringEntry::Allow(allow) if allow.origin == Origin::Manual => Some(Self {
                done: "allowed",
                author: printable(allow.author.as_deref()?),
                until: allow.until,
                since: allow.since?,
                reason: allow.reason.as_deref(),
            }),
            CoveringEntry::Policy { runtime, .. } => runtime.as_ref().map(|runtime| Self {
                done: "limited",
                author: printable(&runtime.author),
                until: runtime.until,
                since: runtime.since,
                reason: runtime.reason.as_deref(),
            }),
            CoveringEntry::Allow(_) | CoveringEntry::Ban(_) => None,
        }
    }

    /// A line for each.
    pub fn sentences(&self, now: &Zoned) -> Vec<String> {
        let until = match self.until {
            Some(until) => format!(
                "until: {} ({} left)",
                phrase::moment(until, now),
                phrase::span(now.timestamp(), until)
            ),
            None => "until: forever".to_owned(),
        };
        let since = phrase::moment(self.since, now);
        let reason = self.reason.map(printable);
        vec![
            until,
            format!("{}: by {}, since {since}", self.done, self.author),
            format!("why: {}", reason.as_deref().unwrap_or("no reason given")),
        ]
    }
}

/// `, allowed by root, until 14:32:07: monitoring` for a runtime entry, otherwise nothing.
pub fn aside(entry: &CoveringEntry, now: &Zoned) -> String {
    let Some(entry) = Circumstances::of_entry(entry) else {
        return String::new();
    };
    let Circumstances { done, author, .. } = &entry;
    let until = phrase::until(entry.until, now);
    let reason = entry.reason.map(printable);
    let reason = reason.as_deref().unwrap_or("no reason given");
    format!(", {done} by {author}, {until}: {reason}")
}
