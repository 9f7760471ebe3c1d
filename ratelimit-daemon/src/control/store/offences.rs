//! How often sources were banned by policies.

use ratelimit_core::{intent::Offence, prefix::Prefix};
use rusqlite::{Row, params};

use super::{Checksum, Store, Writer, prefix};
use crate::control::timekeeper::Timekeeper;

/// All rows.
pub const OFFENCES: &str = "SELECT prefix, bans, forget_ns, checksum FROM offence";

/// The time to forget is on the daemon's clock, in nanoseconds.
pub const TABLE: &str = "
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
        self.all(OFFENCES, |row| read_offence(row, &self.timekeeper))
    }
}

/// A row of [`OFFENCES`].
pub fn read_offence(row: &Row<'_>, timekeeper: &Timekeeper) -> anyhow::Result<(Prefix, Offence)> {
    let key = row.get_ref(0)?.as_blob()?;
    let (bans, forget) = (row.get(1)?, row.get(2)?);
    let sum = sum(key, bans, forget);
    anyhow::ensure!(sum == row.get::<_, u32>(3)?, "its checksum is wrong");
    let offence = Offence {
        bans,
        forget: timekeeper.instant(forget),
    };
    Ok((prefix(key)?, offence))
}

impl Writer<'_> {
    pub(super) fn put_offence(&self, prefix: Prefix, offence: &Offence) -> anyhow::Result<()> {
        let (key, forget) = (prefix.to_bytes(), self.timekeeper.time(offence.forget));
        let sum = sum(&key, offence.bans, forget);
        self.run(
            "INSERT OR REPLACE INTO offence VALUES (?1, ?2, ?3, ?4)",
            params![key, offence.bans, forget, sum],
        )
    }

    pub(super) fn remove_offence(&self, prefix: Prefix) -> anyhow::Result<()> {
        let key = prefix.to_bytes();
        self.run("DELETE FROM offence WHERE prefix = ?1", params![key])
    }
}

fn sum(prefix: &[u8], bans: u32, forget: i64) -> u32 {
    Checksum::of("offence")
        .bytes(prefix)
        .integer(bans.into())
        .integer(forget)
        .sum()
}
