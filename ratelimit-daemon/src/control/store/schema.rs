//! The tables, and how those of older versions become those of this one.

pub mod second;

use std::sync::Arc;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use ratelimit_core::{
    intent::{AllowRow, BanRow, Edit, FOREVER, LimitRow},
    origin::Origin,
    prefix::Prefix,
};
use rusqlite::{Connection, Row};

use super::{
    super::timekeeper::{Reading, Timekeeper},
    Writer, history, limited, offences, time,
};
use crate::clock;

/// The version of the tables, in SQLite's `user_version`.
pub const VERSION: u32 = 3;

/// A prefix is [`Prefix::to_bytes`]. An end is on the daemon's clock (`timekeeper.rs`), whose last note is in `clock`; NULL is
/// forever. `since` is on the wall clock. Both are in nanoseconds. Each row carries the [`super::Checksum`] of its other values.
const TABLES: &str = "
    CREATE TABLE ban (
        prefix BLOB NOT NULL,
        origin TEXT NOT NULL,
        until_ns INTEGER,
        since_ns INTEGER NOT NULL,
        reason TEXT,
        author TEXT NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (prefix, origin)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE clock (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        boot TEXT NOT NULL,
        ahead_ns INTEGER NOT NULL,          -- of the daemon's clock, to the time since that boot
        asleep_ns INTEGER NOT NULL,         -- how much of that time the machine slept
        time_ns INTEGER NOT NULL,           -- the daemon's clock when this was written
        wall_ns INTEGER NOT NULL,           -- the wall clock when this was written
        unsettled_time_ns INTEGER,          -- the same of an earlier boot, where it is not known how long
        unsettled_wall_ns INTEGER,          --   the machine was off after it
        checksum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE change (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        number INTEGER NOT NULL,            -- of the transactions so far
        checksum INTEGER NOT NULL
    ) STRICT;
";

/// What was set at runtime, beside bans.
const RUNTIME_TABLES: &str = "
    CREATE TABLE allow (
        prefix BLOB PRIMARY KEY NOT NULL,
        until_ns INTEGER,
        since_ns INTEGER NOT NULL,
        reason TEXT,
        author TEXT NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE limits (
        target BLOB PRIMARY KEY NOT NULL,   -- a prefix, or nothing for the default policy
        limits TEXT NOT NULL,               -- JSON
        observe INTEGER NOT NULL,
        until_ns INTEGER,
        since_ns INTEGER NOT NULL,
        reason TEXT,
        author TEXT NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// The file was made by a newer version.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it is of version {0}, made by a newer ratelimitd; this one knows {VERSION}")]
pub struct Newer(u32);

/// What stands in SQLite's `application_id` from version 2 on: "rl", and the version. It stands twice in the file, so that a
/// flipped bit is not taken for another version.
fn application_of(version: u32) -> u32 {
    0x726c_0000u32.wrapping_add(version)
}

/// Makes the tables in an empty file, or changes those of an older version.
///
/// # Errors
///
/// When the file is of a newer version ([`Newer`]), damaged, or SQLite refuses.
pub fn prepare(connection: &mut Connection) -> anyhow::Result<()> {
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: u32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let expected = match version {
        0 | 1 => 0,
        version => application_of(version),
    };
    ensure!(
        application == expected,
        "it says that it is of version {version}, and that it is not"
    );
    if version > VERSION {
        return Err(Newer(version).into());
    }
    let transaction = connection.transaction()?;
    offences::prepare(&transaction)?;
    limited::prepare(&transaction)?;
    history::prepare(&transaction)?;
    match version {
        0 => make(&transaction)?,
        1 => from_first(&transaction).context("changing it from version 1 to 3")?,
        2 => second::change(&transaction).context("changing it from version 2 to 3")?,
        _ => return Ok(transaction.commit()?),
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.pragma_update(None, "application_id", application_of(VERSION))?;
    Ok(transaction.commit()?)
}

fn make(connection: &Connection) -> anyhow::Result<()> {
    connection.execute_batch(TABLES)?;
    connection.execute_batch(RUNTIME_TABLES)?;
    Ok(connection.execute_batch(super::lists::TABLES)?)
}

/// Version 1 had one ban a prefix, prefixes as texts, and the end of a ban on the wall clock and on the kernel's of its boot.
fn from_first(connection: &Connection) -> anyhow::Result<()> {
    let edits = first_edits(connection)?;
    connection.execute_batch("DROP TABLE ban; DROP TABLE allow; DROP TABLE limits;")?;
    make(connection)?;
    let mut timekeeper = Timekeeper::resume(None, &clock::boot_id(), Reading::now());
    let note = timekeeper.note(Reading::now());
    let writer = Writer {
        connection,
        timekeeper: &timekeeper,
    };
    writer.write_clock(&note)?;
    edits.iter().try_for_each(|edit| writer.write(edit))
}

fn first_edits(connection: &Connection) -> anyhow::Result<Vec<Edit>> {
    let boot = clock::boot_id();
    let mut edits = Vec::new();
    let mut read = |query: &str, edit: &dyn Fn(&Row<'_>) -> anyhow::Result<Edit>| {
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            edits.push(edit(row).with_context(|| format!("reading a row of `{query}`"))?);
        }
        anyhow::Ok(())
    };
    read(
        "SELECT prefix, since_ns, reason, author, until_ns, until_boot_ns, boot FROM ban",
        &|row| {
            let ban = BanRow {
                until: first_until(row, &boot)?,
                since: time(row, 1)?,
                reason: row.get::<_, Option<Arc<str>>>(2)?,
                author: row.get(3)?,
            };
            Ok(Edit::Ban(first_prefix(row)?, Origin::Manual, Some(ban)))
        },
    )?;
    read(
        "SELECT prefix, since_ns, reason, author FROM allow",
        &|row| {
            let allow = AllowRow {
                until: FOREVER,
                since: time(row, 1)?,
                reason: row.get(2)?,
                author: row.get(3)?,
            };
            Ok(Edit::Allow(first_prefix(row)?, Some(allow)))
        },
    )?;
    read(
        "SELECT target, since_ns, limits, author, observe FROM limits",
        &|row| {
            let limits = LimitRow {
                limits: serde_json::from_str(&row.get::<_, String>(2)?)?,
                observe: row.get(4)?,
                until: FOREVER,
                since: time(row, 1)?,
                reason: None,
                author: row.get(3)?,
            };
            let target = row.get::<_, String>(0)?;
            let target: Option<Prefix> =
                (!target.is_empty()).then(|| target.parse()).transpose()?;
            Ok(Edit::Limits(target.into(), Some(limits)))
        },
    )?;
    Ok(edits)
}

fn first_prefix(row: &Row<'_>) -> anyhow::Result<Prefix> {
    Ok(row.get::<_, String>(0)?.parse()?)
}

/// The end of a ban. In the same boot it is the very same point of time, else what the wall clock says is left of it, and never
/// more than its whole length.
fn first_until(row: &Row<'_>, boot: &str) -> anyhow::Result<ratelimit_common::Instant> {
    let Some(wall) = row.get::<_, Option<i64>>(4)? else {
        return Ok(FOREVER);
    };
    if row.get::<_, String>(6)? == boot
        && let Some(same_boot) = row.get::<_, Option<i64>>(5)?
    {
        return Ok(ratelimit_common::Instant::from_nanos(
            same_boot.cast_unsigned(),
        ));
    }
    let until = Timestamp::from_nanosecond(wall.into())?;
    let length = until.duration_since(time(row, 1)?);
    let left = until.duration_since(clock::wall()).min(length);
    let left = std::time::Duration::try_from(left).unwrap_or_default();
    Ok(clock::after(left))
}
