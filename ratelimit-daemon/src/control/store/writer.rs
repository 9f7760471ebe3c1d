//! A transaction: rows are put and removed.

use ratelimit_common::Instant;
use ratelimit_core::{
    intent::{AllowRow, BanRow, Edit, FOREVER, LimitRow, Target},
    origin::Origin,
    prefix::Prefix,
};
use rusqlite::{Connection, params};

use super::{
    super::timekeeper::{Note, Timekeeper, nanos},
    checksum::Checksum,
};

/// A transaction.
pub struct Writer<'a> {
    pub(super) connection: &'a Connection,
    pub(super) timekeeper: &'a Timekeeper,
}

impl Writer<'_> {
    /// Keeps a change.
    pub fn write(&self, edit: &Edit) -> anyhow::Result<()> {
        match edit {
            Edit::Ban(prefix, origin, Some(ban)) => self.put_ban(*prefix, origin, ban),
            Edit::Ban(prefix, origin, None) => self.run(
                "DELETE FROM ban WHERE prefix = ?1 AND origin = ?2",
                params![prefix.to_bytes(), origin.to_string()],
            ),
            Edit::Allow(prefix, Some(allow)) => self.put_allow(*prefix, allow),
            Edit::Allow(prefix, None) => self.run(
                "DELETE FROM allow WHERE prefix = ?1",
                params![prefix.to_bytes()],
            ),
            Edit::List(name, list, _) => self.put_list(name, list.as_deref()),
            Edit::Offence(source, Some(offence)) => self.put_offence(*source, offence),
            Edit::Offence(source, None) => self.remove_offence(*source),
            Edit::Limited(prefix, Some(row)) => self.put_limited(*prefix, row),
            Edit::Limited(prefix, None) => self.remove_limited(*prefix),
            // Files have them.
            Edit::Config(_) | Edit::PassAll(_) => Ok(()),
            Edit::Limits(target, Some(limits)) => self.put_limits(*target, limits),
            Edit::Limits(target, None) => self.run(
                "DELETE FROM limits WHERE target = ?1",
                params![target_bytes(*target)],
            ),
        }
    }

    /// Notes what the daemon's clock shows.
    pub fn write_clock(&self, note: &Note) -> anyhow::Result<()> {
        self.run(
            "INSERT OR REPLACE INTO clock VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                note.boot,
                note.ahead_ns,
                note.asleep_ns,
                note.moment.time,
                note.moment.wall,
                note.unsettled.map(|moment| moment.time),
                note.unsettled.map(|moment| moment.wall),
                note_sum(note)
            ],
        )
    }

    /// Counts a change: the one that this transaction is.
    pub fn write_changes(&self, number: u64) -> anyhow::Result<()> {
        let number = number.cast_signed();
        self.run(
            "INSERT OR REPLACE INTO change VALUES (1, ?1, ?2)",
            params![number, changes_sum(number)],
        )
    }

    fn put_ban(&self, prefix: Prefix, origin: &Origin, ban: &BanRow) -> anyhow::Result<()> {
        let until = self.end(ban.until);
        let (origin, since) = (origin.to_string(), nanos(ban.since));
        let (reason, author) = (ban.reason.as_deref(), &*ban.author);
        let prefix = prefix.to_bytes();
        let sum = ban_sum(&prefix, &origin, until, since, reason, author);
        self.run(
            "INSERT OR REPLACE INTO ban VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![prefix, origin, until, since, reason, author, sum],
        )
    }

    fn put_allow(&self, prefix: Prefix, allow: &AllowRow) -> anyhow::Result<()> {
        let (until, since) = (self.end(allow.until), nanos(allow.since));
        let (reason, author) = (allow.reason.as_deref(), &*allow.author);
        let prefix = prefix.to_bytes();
        let sum = allow_sum(&prefix, until, since, reason, author);
        self.run(
            "INSERT OR REPLACE INTO allow VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![prefix, until, since, reason, author, sum],
        )
    }

    fn put_limits(&self, target: Target, row: &LimitRow) -> anyhow::Result<()> {
        let limits = serde_json::to_string(&row.limits)?;
        let (until, since) = (self.end(row.until), nanos(row.since));
        let (observe, reason, author) = (row.observe, row.reason.as_deref(), &*row.author);
        let target = target_bytes(target);
        let sum = limits_sum(&target, &limits, observe, until, since, reason, author);
        self.run(
            "INSERT OR REPLACE INTO limits VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![target, limits, observe, until, since, reason, author, sum],
        )
    }

    /// An end on the daemon's clock; none is forever.
    fn end(&self, until: Instant) -> Option<i64> {
        (until != FOREVER).then(|| self.timekeeper.time(until))
    }

    pub(super) fn run(&self, statement: &str, values: impl rusqlite::Params) -> anyhow::Result<()> {
        self.connection.prepare_cached(statement)?.execute(values)?;
        Ok(())
    }
}

/// The checksum of a row of `ban`.
pub fn ban_sum(
    prefix: &[u8],
    origin: &str,
    until: Option<i64>,
    since: i64,
    reason: Option<&str>,
    author: &str,
) -> u32 {
    Checksum::of("ban")
        .bytes(prefix)
        .bytes(origin.as_bytes())
        .optional_integer(until)
        .integer(since)
        .optional(reason)
        .bytes(author.as_bytes())
        .sum()
}

/// The checksum of a row of `allow`.
pub fn allow_sum(
    prefix: &[u8],
    until: Option<i64>,
    since: i64,
    reason: Option<&str>,
    author: &str,
) -> u32 {
    Checksum::of("allow")
        .bytes(prefix)
        .optional_integer(until)
        .integer(since)
        .optional(reason)
        .bytes(author.as_bytes())
        .sum()
}

/// The checksum of a row of `limits`.
pub fn limits_sum(
    target: &[u8],
    limits: &str,
    observe: bool,
    until: Option<i64>,
    since: i64,
    reason: Option<&str>,
    author: &str,
) -> u32 {
    Checksum::of("limits")
        .bytes(target)
        .bytes(limits.as_bytes())
        .integer(i64::from(observe))
        .optional_integer(until)
        .integer(since)
        .optional(reason)
        .bytes(author.as_bytes())
        .sum()
}

/// The checksum of the row of `clock`.
pub fn note_sum(note: &Note) -> u32 {
    Checksum::of("clock")
        .bytes(note.boot.as_bytes())
        .integer(note.ahead_ns)
        .integer(note.asleep_ns)
        .integer(note.moment.time)
        .integer(note.moment.wall)
        .optional_integer(note.unsettled.map(|moment| moment.time))
        .optional_integer(note.unsettled.map(|moment| moment.wall))
        .sum()
}

/// The checksum of the row of `change`.
pub fn changes_sum(number: i64) -> u32 {
    Checksum::of("change").integer(number).sum()
}

/// What the key of a destination begins with. That of a prefix of sources begins with its family, 4 or 6.
pub(super) const DESTINATION: u8 = 1;

/// The key of limits; nothing is the default policy.
fn target_bytes(target: Target) -> Vec<u8> {
    let kind = target.destination().map(|_| DESTINATION);
    let prefix = target.prefix().map(Prefix::to_bytes);
    kind.into_iter()
        .chain(prefix.into_iter().flatten())
        .collect()
}
