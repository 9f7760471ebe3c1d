//! Writes the rows of changes.

use ratelimit_common::Instant;
use ratelimit_core::{
    intent::{Edit, EntryRow, FOREVER, LimitRow, Target},
    origin::Origin,
    prefix::Prefix,
};
use rusqlite::params;

use super::{
    limited::LIMITED,
    offences::OFFENCES,
    reader::{DESTINATION, Limits},
    schema::{ALLOW, BAN, CHANGE, CLOCK, LIMITS},
    table::Writer,
};
use crate::control::time::ban_clock::{Note, nanos};

impl Writer<'_> {
    /// Writes a change.
    pub fn write(&self, edit: &Edit) -> anyhow::Result<()> {
        match edit {
            Edit::Ban(prefix, origin, Some(ban)) => self.put_ban(*prefix, origin, ban),
            Edit::Ban(prefix, origin, None) => self.run(
                "DELETE FROM ban WHERE prefix = ?1 AND origin = ?2",
                params![prefix.to_bytes(), stored(origin)],
            ),
            Edit::Allow(prefix, Some(allow)) => self.put_allow(*prefix, allow),
            Edit::Allow(prefix, None) => self.remove(&ALLOW, *prefix),
            Edit::List(name, list, _) => self.put_list(name, list.as_deref()),
            Edit::Offence(source, Some(offence)) => self.put_offence(*source, offence),
            Edit::Offence(source, None) => self.remove(&OFFENCES, *source),
            Edit::Limited(prefix, Some(row)) => self.put_limited(*prefix, row),
            Edit::Limited(prefix, None) => self.remove(&LIMITED, *prefix),
            // These are in files.
            Edit::Config(_) | Edit::PassAll(_) => Ok(()),
            Edit::Limits(target, Some(limits)) => self.put_limits(*target, limits),
            Edit::Limits(target, None) => self.run(
                "DELETE FROM limits WHERE target = ?1",
                params![target_bytes(*target)],
            ),
        }
    }

    /// Writes a note of the daemon's clock.
    pub fn write_clock(&self, note: &Note) -> anyhow::Result<()> {
        self.put(
            &CLOCK,
            params![
                note.boot,
                note.ahead_ns,
                note.asleep_ns,
                note.moment.time,
                note.moment.wall,
                note.unsettled.map(|moment| moment.time),
                note.unsettled.map(|moment| moment.wall),
            ],
        )
    }

    /// Writes the number of this transaction.
    pub fn write_changes(&self, number: u64) -> anyhow::Result<()> {
        self.put(&CHANGE, params![number.cast_signed()])
    }

    fn put_ban(&self, prefix: Prefix, origin: &Origin, ban: &EntryRow) -> anyhow::Result<()> {
        let (until, since) = (self.end(ban.until), nanos(ban.since));
        let (key, origin) = (prefix.to_bytes(), stored(origin));
        self.put(
            &BAN,
            params![key, origin, until, since, ban.reason, ban.author],
        )
    }

    fn put_allow(&self, prefix: Prefix, allow: &EntryRow) -> anyhow::Result<()> {
        let (until, since) = (self.end(allow.until), nanos(allow.since));
        let key = prefix.to_bytes();
        self.put(
            &ALLOW,
            params![key, until, since, allow.reason, allow.author],
        )
    }

    fn put_limits(&self, target: Target, row: &LimitRow) -> anyhow::Result<()> {
        let (key, limits) = (target_bytes(target), Limits::text(row)?);
        let entry = &row.entry;
        let (until, since) = (self.end(entry.until), nanos(entry.since));
        let (reason, author) = (&entry.reason, &entry.author);
        self.put(
            &LIMITS,
            params![key, limits, row.observe, until, since, reason, author],
        )
    }

    /// Converts an end to the daemon's clock. `None` is forever.
    fn end(&self, until: Instant) -> Option<i64> {
        (until != FOREVER).then(|| self.ban_clock.time(until))
    }
}

/// Returns the text of an origin in the database, which keeps the names from before 1.0: it is a
/// part of the key.
fn stored(origin: &Origin) -> String {
    if *origin == Origin::Automatic {
        "detected".to_owned()
    } else {
        origin.to_string()
    }
}

/// Returns the key of limits. It is empty for the default policy.
fn target_bytes(target: Target) -> Vec<u8> {
    let kind = target.destination().map(|_| DESTINATION);
    let prefix = target.prefix().map(Prefix::to_bytes);
    kind.into_iter()
        .chain(prefix.into_iter().flatten())
        .collect()
}
