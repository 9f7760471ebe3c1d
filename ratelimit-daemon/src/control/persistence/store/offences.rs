//! The number of bans of each source by policies.

use ratelimit_core::{
    intent::{Edit, Offence},
    prefix::Prefix,
};
use rusqlite::{Row, params};

use super::{
    reader::{Reader, prefix},
    table::{Table, Writer},
};

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

/// A row of [`OFFENCES`].
pub fn read_offence(reader: &mut Reader<'_>, row: &Row<'_>) -> anyhow::Result<Edit> {
    let offence = Offence {
        bans: row.get(1)?,
        forget: reader.ban_clock.instant(row.get(2)?),
    };
    Ok(Edit::Offence(prefix(row, 0)?, Some(offence)))
}

impl Writer<'_> {
    pub(super) fn put_offence(&self, prefix: Prefix, offence: &Offence) -> anyhow::Result<()> {
        let (key, forget) = (prefix.to_bytes(), self.ban_clock.time(offence.forget));
        self.put(&OFFENCES, params![key, offence.bans, forget])
    }
}
