//! The version of the tables, and the tables without a file of their own. `offences`, `limited`
//! and `lists` define theirs.

use anyhow::ensure;
use ratelimit_core::intent::Edit;
use rusqlite::{Connection, Row};

use super::{
    limited::{self, LIMITED, read_limited},
    lists::{self, LIST, read_list},
    offences::{self, OFFENCES, read_offence},
    reader::{Reader, read_allow, read_limits},
    table::Table,
};

/// The version of the tables, in SQLite's `user_version`.
pub const VERSION: u32 = 3;

/// A prefix is stored as its bytes ([`ratelimit_core::prefix::Prefix::to_bytes`]). An end is on the
/// daemon's clock (`ban_clock.rs`), whose last note is in `clock`; NULL is forever. `since` is on
/// the wall clock. All times are in nanoseconds. Each row has a checksum ([`Table`]) of its other
/// values.
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
        unsettled_time_ns INTEGER,          -- the same of an earlier boot, where it is not known \
            how long
        unsettled_wall_ns INTEGER,          --   the machine was off after it
        checksum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE change (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        number INTEGER NOT NULL,            -- of the transactions so far
        checksum INTEGER NOT NULL
    ) STRICT;
";

/// Runtime settings other than bans.
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

pub const BAN: Table = Table {
    name: "ban",
    rows: "SELECT prefix, origin, until_ns, since_ns, reason, author, checksum FROM ban ORDER BY \
           prefix, origin",
    put: "INSERT OR REPLACE INTO ban VALUES (?, ?, ?, ?, ?, ?, ?)",
    nullable: &[2, 4],
};

pub const CLOCK: Table = Table {
    name: "clock",
    rows: "SELECT boot, ahead_ns, asleep_ns, time_ns, wall_ns, unsettled_time_ns, \
           unsettled_wall_ns, checksum FROM clock",
    put: "INSERT OR REPLACE INTO clock VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
    nullable: &[5, 6],
};

pub const CHANGE: Table = Table {
    name: "change",
    rows: "SELECT number, checksum FROM change",
    put: "INSERT OR REPLACE INTO change VALUES (1, ?, ?)",
    nullable: &[],
};

pub const ALLOW: Table = Table {
    name: "allow",
    rows: "SELECT prefix, until_ns, since_ns, reason, author, checksum FROM allow",
    put: "INSERT OR REPLACE INTO allow VALUES (?, ?, ?, ?, ?, ?)",
    nullable: &[1, 3],
};

pub const LIMITS: Table = Table {
    name: "limits",
    rows: "SELECT target, limits, observe, until_ns, since_ns, reason, author, checksum FROM \
           limits",
    put: "INSERT OR REPLACE INTO limits VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    nullable: &[3, 5],
};

/// A table, and the function that reads its rows.
pub type Kind = (
    &'static Table,
    fn(&mut Reader<'_>, &Row<'_>) -> anyhow::Result<Edit>,
);

/// The tables that policies depend on.
pub const POLICIES: [Kind; 2] = [(&LIMITS, read_limits), (&LIMITED, read_limited)];

/// The other tables, except bans.
pub const OTHERS: [Kind; 3] = [
    (&ALLOW, read_allow),
    (&LIST, read_list),
    (&OFFENCES, read_offence),
];

/// The file belongs to a newer version, or to one from before the first release.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it has version {0}, written by another ratelimitd; this one supports {VERSION}")]
pub struct OtherVersion(u32);

/// The value of SQLite's `application_id` since version 2: "rl", and the version. The file contains
/// the version twice, so a flipped bit is not mistaken for another version.
fn application_of(version: u32) -> u32 {
    0x726c_0000u32.wrapping_add(version)
}

/// Creates the tables in an empty file.
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
        "it claims to be version {version} but is not"
    );
    if version != 0 && version != VERSION {
        return Err(OtherVersion(version).into());
    }
    let transaction = connection.transaction()?;
    if version == 0 {
        for tables in [TABLES, RUNTIME_TABLES, lists::TABLES] {
            transaction.execute_batch(tables)?;
        }
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.pragma_update(None, "application_id", application_of(VERSION))?;
    }
    for table in [offences::DEFINITION, limited::DEFINITION] {
        transaction.execute_batch(table)?;
    }
    Ok(transaction.commit()?)
}
