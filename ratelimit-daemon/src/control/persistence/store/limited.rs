//! The further limits of sources of attacks.

use ratelimit_core::{
    detection::Kind,
    intent::{Edit, LimitedRow},
    prefix::Prefix,
};
use rusqlite::{Row, params};

use super::{
    reader::{Reader, prefix, time},
    table::{Table, Writer},
};
use crate::control::time::ban_clock::nanos;

pub const LIMITED: Table = Table {
    name: "limited",
    rows: "SELECT prefix, until_ns, since_ns, kind, limit_text, checksum FROM limited",
    put: "INSERT OR REPLACE INTO limited VALUES (?, ?, ?, ?, ?, ?)",
    nullable: &[],
};

/// The end is on the daemon's clock, in nanoseconds, `since_ns` on the wall clock.
pub const DEFINITION: &str = "
    CREATE TABLE IF NOT EXISTS limited (
        prefix BLOB PRIMARY KEY NOT NULL,
        until_ns INTEGER NOT NULL,
        since_ns INTEGER NOT NULL,
        kind TEXT NOT NULL,                 -- JSON
        limit_text TEXT NOT NULL,           -- JSON
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// A row of [`LIMITED`].
pub fn read_limited(reader: &mut Reader<'_>, row: &Row<'_>) -> anyhow::Result<Edit> {
    let kind: Option<Kind> = serde_json::from_str(row.get_ref(3)?.as_str()?)?;
    let limited = LimitedRow {
        until: reader.ban_clock.instant(row.get(1)?),
        since: time(row, 2)?,
        kind,
        limit: serde_json::from_str(row.get_ref(4)?.as_str()?)?,
        // Connections are counted again soon.
        is_full: kind.is_none(),
    };
    Ok(Edit::Limited(prefix(row, 0)?, Some(limited)))
}

impl Writer<'_> {
    pub(super) fn put_limited(&self, prefix: Prefix, row: &LimitedRow) -> anyhow::Result<()> {
        let (key, since) = (prefix.to_bytes(), nanos(row.since));
        let until = self.ban_clock.time(row.until);
        let kind = serde_json::to_string(&row.kind)?;
        let limit = serde_json::to_string(&row.limit)?;
        self.put(&LIMITED, params![key, until, since, kind, limit])
    }
}
