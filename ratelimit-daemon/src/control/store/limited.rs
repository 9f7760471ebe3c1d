//! The further limits of sources of attacks.

use ratelimit_core::{intent::LimitedRow, prefix::Prefix};
use rusqlite::{Row, params};

use super::{Checksum, Store, Writer, prefix, time};
use crate::control::timekeeper::{Timekeeper, nanos};

/// All rows.
pub const LIMITED: &str =
    "SELECT prefix, until_ns, since_ns, kind, limit_text, checksum FROM limited";

/// The end is on the daemon's clock, in nanoseconds, `since_ns` on the wall clock.
pub const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS limited (
        prefix BLOB PRIMARY KEY NOT NULL,
        until_ns INTEGER NOT NULL,
        since_ns INTEGER NOT NULL,
        kind TEXT NOT NULL,                 -- JSON
        limit_text TEXT NOT NULL,           -- JSON
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

impl Store {
    /// All further limits.
    pub fn limited(&self) -> anyhow::Result<Vec<(Prefix, LimitedRow)>> {
        self.all(LIMITED, |row| read_limited(row, &self.timekeeper))
    }
}

/// A row of [`LIMITED`].
pub fn read_limited(
    row: &Row<'_>,
    timekeeper: &Timekeeper,
) -> anyhow::Result<(Prefix, LimitedRow)> {
    let key = row.get_ref(0)?.as_blob()?;
    let (until, since) = (row.get(1)?, row.get(2)?);
    let (kind, limit) = (row.get_ref(3)?.as_str()?, row.get_ref(4)?.as_str()?);
    let sum = sum(key, until, since, kind, limit);
    anyhow::ensure!(sum == row.get::<_, u32>(5)?, "its checksum is wrong");
    let limited = LimitedRow {
        until: timekeeper.instant(until),
        since: time(row, 2)?,
        kind: serde_json::from_str(kind)?,
        limit: serde_json::from_str(limit)?,
    };
    Ok((prefix(key)?, limited))
}

impl Writer<'_> {
    pub(super) fn put_limited(&self, prefix: Prefix, row: &LimitedRow) -> anyhow::Result<()> {
        let (key, since) = (prefix.to_bytes(), nanos(row.since));
        let until = self.timekeeper.time(row.until);
        let kind = serde_json::to_string(&row.kind)?;
        let limit = serde_json::to_string(&row.limit)?;
        let sum = sum(&key, until, since, &kind, &limit);
        self.run(
            "INSERT OR REPLACE INTO limited VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![key, until, since, kind, limit, sum],
        )
    }

    pub(super) fn remove_limited(&self, prefix: Prefix) -> anyhow::Result<()> {
        let key = prefix.to_bytes();
        self.run("DELETE FROM limited WHERE prefix = ?1", params![key])
    }
}

fn sum(prefix: &[u8], until: i64, since: i64, kind: &str, limit: &str) -> u32 {
    Checksum::of("limited")
        .bytes(prefix)
        .integer(until)
        .integer(since)
        .bytes(kind.as_bytes())
        .bytes(limit.as_bytes())
        .sum()
}
