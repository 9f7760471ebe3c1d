//! What is intended beside the configuration, in SQLite: bans of every origin, and what was set by hand. The kernel's maps are
//! what is enforced.

mod checksum;
mod offences;
mod row;
mod schema;
mod text;
mod writer;

use std::path::Path;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use tracing::warn;

use self::{
    checksum::Checksum,
    text::Texts,
    writer::{allow_sum, ban_sum, limits_sum, note_sum},
};
pub use self::{
    row::{AllowRow, BanRow, FOREVER, LimitRow},
    writer::Writer,
};
use super::timekeeper::{Moment, Note, Reading, Timekeeper};
use crate::{clock, origin::Origin, prefix::Prefix};

/// The database.
pub struct Store {
    connection: Connection,
    timekeeper: Timekeeper,
}

impl Store {
    /// Opens the database `state.db` in `directory`, or makes it.
    ///
    /// # Errors
    ///
    /// When the file is not readable, is no database, or is one of a newer version.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("state.db");
        let opened = Self::open_file(&path, &clock::boot_id());
        opened.with_context(|| format!("opening the database {}", path.display()))
    }

    fn open_file(path: &Path, boot: &str) -> anyhow::Result<Self> {
        let mut connection = Connection::open(path)?;
        // A write that was acknowledged outlives the process. Waiting for the disk as well (FULL) would cost milliseconds a ban.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        schema::prepare(&mut connection)?;
        let now = Reading::now();
        let timekeeper = Timekeeper::resume(read_clock(&connection)?.as_ref(), boot, now);
        let mut store = Self {
            connection,
            timekeeper,
        };
        store.note_time(now)?;
        Ok(store)
    }

    /// Takes in what the clocks show, and answers whether the ends of bans are other points on the kernel's clock than before:
    /// then they are to be read again.
    pub fn keep_time(&mut self, now: Reading) -> bool {
        let moved = self.timekeeper.advance(now);
        if (moved || self.timekeeper.should_note(now))
            && let Err(error) = self.note_time(now)
        {
            let error = format!("{error:#}");
            warn!(error, "the time could not be noted in the database");
        }
        moved
    }

    fn note_time(&mut self, now: Reading) -> anyhow::Result<()> {
        let note = self.timekeeper.note(now);
        self.transaction(|writer| writer.write_clock(&note))
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
            timekeeper: &self.timekeeper,
        })?;
        transaction.commit().context("writing to the database")?;
        Ok(answer)
    }

    /// All bans, in the order of their prefixes.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub fn bans(&self) -> anyhow::Result<Vec<(Prefix, Origin, BanRow)>> {
        let mut texts = Texts::default();
        self.rows(
            "SELECT prefix, since_ns, reason, author, origin, until_ns, checksum FROM ban ORDER BY prefix, origin",
            |row| {
                let (key, since) = (row.get_ref(0)?.as_blob()?, row.get(1)?);
                let reason = row.get_ref(2)?.as_str_or_null()?;
                let author = row.get_ref(3)?.as_str()?;
                let origin = row.get_ref(4)?.as_str()?;
                let until: Option<i64> = row.get(5)?;
                let sum = ban_sum(key, origin, until, since, reason, author);
                ensure!(sum == row.get::<_, u32>(6)?, "its checksum is wrong");
                let ban = BanRow {
                    until: until.map_or(FOREVER, |until| self.timekeeper.instant(until)),
                    since: Timestamp::from_nanosecond(since.into())?,
                    reason: reason.map(|reason| texts.keep(reason)),
                    author: texts.keep(author),
                };
                Ok((prefix(key)?, origin.parse()?, ban))
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
            "SELECT prefix, since_ns, reason, author, checksum FROM allow",
            |row| {
                let key = row.get_ref(0)?.as_blob()?;
                let allow = AllowRow {
                    since: time(row, 1)?,
                    reason: row.get(2)?,
                    author: row.get(3)?,
                };
                let sum = allow_sum(key, row.get(1)?, allow.reason.as_deref(), &allow.author);
                ensure!(sum == row.get::<_, u32>(4)?, "its checksum is wrong");
                Ok((prefix(key)?, allow))
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
            "SELECT target, since_ns, limits, author, observe, checksum FROM limits",
            |row| {
                let target = row.get_ref(0)?.as_blob()?;
                let text = row.get_ref(2)?.as_str()?;
                let limits = LimitRow {
                    limits: serde_json::from_str(text)?,
                    observe: row.get(4)?,
                    since: time(row, 1)?,
                    author: row.get(3)?,
                };
                let sum = limits_sum(target, text, limits.observe, row.get(1)?, &limits.author);
                ensure!(sum == row.get::<_, u32>(5)?, "its checksum is wrong");
                let target = (!target.is_empty()).then(|| prefix(target)).transpose()?;
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
}

fn read_clock(connection: &Connection) -> anyhow::Result<Option<Note>> {
    let query = "SELECT boot, ahead_ns, asleep_ns, time_ns, wall_ns, unsettled_time_ns, unsettled_wall_ns, checksum FROM clock";
    let found = connection
        .query_row(query, [], |row| {
            let unsettled = row.get::<_, Option<i64>>(5)?.zip(row.get(6)?);
            let note = Note {
                boot: row.get(0)?,
                ahead_ns: row.get(1)?,
                asleep_ns: row.get(2)?,
                moment: Moment {
                    time: row.get(3)?,
                    wall: row.get(4)?,
                },
                unsettled: unsettled.map(|(time, wall)| Moment { time, wall }),
            };
            Ok((note, row.get::<_, u32>(7)?))
        })
        .optional()
        .context("reading the row of `clock`")?;
    let Some((note, sum)) = found else {
        return Ok(None);
    };
    ensure!(
        sum == note_sum(&note),
        "the checksum of the row of `clock` is wrong"
    );
    Ok(Some(note))
}

/// The key of limits; nothing is the default policy.
fn target_bytes(target: Option<Prefix>) -> Vec<u8> {
    target.map_or_else(Vec::new, |prefix| prefix.to_bytes().to_vec())
}

fn prefix(bytes: &[u8]) -> anyhow::Result<Prefix> {
    Prefix::from_bytes(bytes).with_context(|| format!("{bytes:?} are no prefix"))
}

fn time(row: &Row<'_>, column: usize) -> anyhow::Result<Timestamp> {
    let nanos: i64 = row.get(column)?;
    Ok(Timestamp::from_nanosecond(nanos.into())?)
}

#[cfg(test)]
mod tests;
