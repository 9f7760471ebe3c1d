//! How often sources were banned by policies.

use ratelimit_core::{intent::Offence, prefix::Prefix};
use rusqlite::{Row, params};

use super::{Store, Table, Writer, prefix};
use crate::control::timekeeper::Timekeeper;

pub const OFFENCES: Table = Table {
    name: "offence",
    rows: "SELECT prefix, bans, forget_ns, checksum FROM offence",
    put: "INSERT OR REPLACE INTO offence VALUES (?, ?, ?, ?)",
    nullable: &[],
};

/// The time to forget is on the daemon's clock, in nanoseconds.
pub const DEFINITION: &str = "
    CREATE TABLE IF NOT EXISTS offence (
        prefix BLOB PRIMARY KEY NOT NULL,
        bans INTEGER NOT NULL,
        forget_ns INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

impl Store {
    /// All offences.
    pub fn offences(&self) -> anyhow::Result<Vec<(Prefix, Offence)>> {
        OFFENCES.read(&self.connection, |row| read_offence(row, &self.timekeeper))
    }
}

/// A row of [`OFFENCES`].
pub fn read_offence(row: &Row<'_>, timekeeper: &Timekeeper) -> anyhow::Result<(Prefix, Offence)> {
    let offence = Offence {
        bans: row.get(1)?,
        forget: timekeeper.instant(row.get(2)?),
    };
    Ok((prefix(row, 0)?, offence))
}

impl Writer<'_> {
    pub(super) fn put_offence(&self, prefix: Prefix, offence: &Offence) -> anyhow::Result<()> {
        let (key, forget) = (prefix.to_bytes(), self.timekeeper.time(offence.forget));
        self.put(&OFFENCES, params![key, offence.bans, forget])
    }

    pub(super) fn remove_offence(&self, prefix: Prefix) -> anyhow::Result<()> {
        let key = prefix.to_bytes();
        self.run("DELETE FROM offence WHERE prefix = ?1", params![key])
    }
}
