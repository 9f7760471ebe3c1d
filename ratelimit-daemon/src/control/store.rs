//! What was set by hand, in SQLite: what is intended, while the kernel's maps are what is enforced.

use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use ratelimit_common::Instant;
use rusqlite::{Connection, Row, params};

use super::intent::Edit;
use crate::{clock, limit::LimitSpec, prefix::Prefix};

/// The version of the tables, in SQLite's `user_version`.
const VERSION: u32 = 1;

const TABLES: &str = "
    CREATE TABLE ban (
        prefix TEXT PRIMARY KEY,
        until_ns INTEGER,           -- wall clock; NULL is forever
        until_boot_ns INTEGER,      -- the same on the monotonic clock of that boot
        boot TEXT NOT NULL,
        since_ns INTEGER NOT NULL,
        reason TEXT,
        author TEXT NOT NULL
    ) STRICT;
    CREATE TABLE allow (
        prefix TEXT PRIMARY KEY,
        since_ns INTEGER NOT NULL,
        reason TEXT,
        author TEXT NOT NULL
    ) STRICT;
    CREATE TABLE limits (
        target TEXT PRIMARY KEY,    -- a prefix, or the empty text for the default policy
        limits TEXT NOT NULL,       -- JSON
        observe INTEGER NOT NULL,
        since_ns INTEGER NOT NULL,
        author TEXT NOT NULL
    ) STRICT;
";

/// A ban that was set by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct BanRow {
    /// Until when, on the clock of the kernel; the last point of time is forever.
    pub until: Instant,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: Option<String>,
    /// Who did it.
    pub author: String,
}

/// An allow that was set by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct AllowRow {
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: Option<String>,
    /// Who did it.
    pub author: String,
}

/// Limits that were set by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRow {
    /// The limits.
    pub limits: Vec<LimitSpec>,
    /// Whether what they would drop passes.
    pub observe: bool,
    /// Since when.
    pub since: Timestamp,
    /// Who did it.
    pub author: String,
}

/// A ban without an end.
pub const FOREVER: Instant = Instant::from_nanos(u64::MAX);

/// The database.
pub struct Store {
    connection: Connection,
    boot: String,
}

impl Store {
    /// Opens the database `state.db` in `directory`, or makes it.
    ///
    /// # Errors
    ///
    /// When the file is not readable, is no database, or is one of a newer version.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("state.db");
        let opened = Self::open_file(&path);
        opened.with_context(|| format!("opening the database {}", path.display()))
    }

    fn open_file(path: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(path)?;
        // A write that was acknowledged outlives the process. Waiting for the disk as well (FULL) would cost milliseconds a ban.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        anyhow::ensure!(
            version <= VERSION,
            "it is of version {version}, made by a newer ratelimitd; this one knows {VERSION}"
        );
        if version == 0 {
            connection.execute_batch(&format!(
                "BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;"
            ))?;
        }
        Ok(Self {
            connection,
            boot: clock::boot_id(),
        })
    }

    /// Runs `change` in a transaction: all of it is kept, or nothing.
    ///
    /// # Errors
    ///
    /// Those of `change`, and of the database.
    pub fn transaction<T>(
        &mut self,
        change: impl FnOnce(&Writer<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let transaction = self
            .connection
            .transaction()
            .context("beginning a transaction")?;
        let answer = change(&Writer {
            connection: &transaction,
            boot: &self.boot,
        })?;
        transaction.commit().context("writing to the database")?;
        Ok(answer)
    }

    /// All bans.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub fn bans(&self) -> anyhow::Result<Vec<(Prefix, BanRow)>> {
        self.rows(
            "SELECT prefix, since_ns, reason, author, until_ns, until_boot_ns, boot FROM ban",
            |row| {
                let row_ban = BanRow {
                    until: self.until(row)?,
                    since: time(row, 1)?,
                    reason: row.get(2)?,
                    author: row.get(3)?,
                };
                Ok((prefix(row)?, row_ban))
            },
        )
    }

    /// All allows.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub fn allows(&self) -> anyhow::Result<Vec<(Prefix, AllowRow)>> {
        self.rows(
            "SELECT prefix, since_ns, reason, author FROM allow",
            |row| {
                Ok((
                    prefix(row)?,
                    AllowRow {
                        since: time(row, 1)?,
                        reason: row.get(2)?,
                        author: row.get(3)?,
                    },
                ))
            },
        )
    }

    /// All limits; `None` is the default policy.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub fn limits(&self) -> anyhow::Result<Vec<(Option<Prefix>, LimitRow)>> {
        self.rows(
            "SELECT target, since_ns, limits, author, observe FROM limits",
            |row| {
                let target: String = row.get(0)?;
                let target = if target.is_empty() {
                    None
                } else {
                    Some(target.parse()?)
                };
                let limits = serde_json::from_str(&row.get::<_, String>(2)?)?;
                let limits = LimitRow {
                    limits,
                    observe: row.get(4)?,
                    since: time(row, 1)?,
                    author: row.get(3)?,
                };
                Ok((target, limits))
            },
        )
    }

    fn rows<T>(
        &self,
        query: &str,
        mut read: impl FnMut(&Row<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(read(row).with_context(|| format!("reading a row of `{query}`"))?);
        }
        Ok(all)
    }

    /// The end of a ban: in the same boot the very same point of time, else the one that the wall clock shows.
    fn until(&self, row: &Row<'_>) -> anyhow::Result<Instant> {
        let wall: Option<i64> = row.get(4)?;
        let boot: String = row.get(6)?;
        let Some(wall) = wall else {
            return Ok(FOREVER);
        };
        let same_boot: Option<i64> = if boot == self.boot { row.get(5)? } else { None };
        Ok(match same_boot {
            Some(nanos) => Instant::from_nanos(nanos.cast_unsigned()),
            None => clock::from_wall(Timestamp::from_nanosecond(wall.into())?),
        })
    }
}

/// A transaction.
pub struct Writer<'a> {
    connection: &'a Connection,
    boot: &'a str,
}

impl Writer<'_> {
    /// Keeps a change.
    ///
    /// # Errors
    ///
    /// When the database refuses.
    pub fn write(&self, edit: &Edit) -> anyhow::Result<()> {
        match edit {
            Edit::Ban(prefix, Some(ban)) => self.put_ban(*prefix, ban),
            Edit::Ban(prefix, None) => {
                self.remove("DELETE FROM ban WHERE prefix = ?1", &prefix.to_string())
            }
            Edit::Allow(prefix, Some(allow)) => self.put_allow(*prefix, allow),
            Edit::Allow(prefix, None) => {
                self.remove("DELETE FROM allow WHERE prefix = ?1", &prefix.to_string())
            }
            Edit::Limits(target, Some(limits)) => self.put_limits(*target, limits),
            Edit::Limits(target, None) => self.remove(
                "DELETE FROM limits WHERE target = ?1",
                &target_text(*target),
            ),
        }
    }

    fn put_ban(&self, prefix: Prefix, ban: &BanRow) -> anyhow::Result<()> {
        let ends = ban.until != FOREVER;
        let until = ends.then(|| nanos(clock::to_wall(ban.until)));
        let until_boot = ends.then(|| ban.until.as_nanos().cast_signed());
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO ban VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                prefix.to_string(),
                until,
                until_boot,
                self.boot,
                nanos(ban.since),
                ban.reason,
                ban.author
            ])?;
        Ok(())
    }

    fn put_allow(&self, prefix: Prefix, allow: &AllowRow) -> anyhow::Result<()> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO allow VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![
                prefix.to_string(),
                nanos(allow.since),
                allow.reason,
                allow.author
            ])?;
        Ok(())
    }

    fn put_limits(&self, target: Option<Prefix>, row: &LimitRow) -> anyhow::Result<()> {
        let limits = serde_json::to_string(&row.limits)?;
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO limits VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![
                target_text(target),
                limits,
                row.observe,
                nanos(row.since),
                row.author
            ])?;
        Ok(())
    }

    fn remove(&self, statement: &str, key: &str) -> anyhow::Result<()> {
        self.connection.prepare_cached(statement)?.execute([key])?;
        Ok(())
    }
}

fn target_text(target: Option<Prefix>) -> String {
    target.map(|prefix| prefix.to_string()).unwrap_or_default()
}

fn prefix(row: &Row<'_>) -> anyhow::Result<Prefix> {
    Ok(row.get::<_, String>(0)?.parse()?)
}

fn time(row: &Row<'_>, column: usize) -> anyhow::Result<Timestamp> {
    let nanos: i64 = row.get(column)?;
    Ok(Timestamp::from_nanosecond(nanos.into())?)
}

/// Nanoseconds since 1970: the range of SQLite's integers ends in 2262, and so do bans.
fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
