//! The usage history, by hour.

use hdrhistogram::Histogram;
use rusqlite::{Row, params};

use super::{
    Store,
    table::{Table, Writer},
    usage_histogram::{Measured, Seen},
};

/// Hours are counted since 1970. The histogram is JSON: pairs of a value and its number of windows.
pub const DEFINITION: &str = "
    CREATE TABLE IF NOT EXISTS history (
        hour INTEGER NOT NULL,
        policy TEXT NOT NULL,
        measure TEXT NOT NULL,
        held TEXT NOT NULL,
        full INTEGER NOT NULL,
        sources INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (hour, policy, measure)
    ) STRICT, WITHOUT ROWID;
";

pub const HISTORY: Table = Table {
    name: "history",
    rows: "SELECT hour, policy, measure, held, full, sources, checksum FROM history",
    put: "INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?, ?, ?, ?)",
    nullable: &[],
};

impl Store {
    /// Returns the records since an hour.
    pub fn history(&self, since: i64) -> anyhow::Result<Vec<(i64, Measured, Seen)>> {
        let mut history = HISTORY.read(&self.connection, read_history)?;
        history.retain(|(hour, ..)| *hour >= since);
        Ok(history)
    }
}

/// Reads a row of [`HISTORY`].
pub fn read_history(row: &Row<'_>) -> anyhow::Result<(i64, Measured, Seen)> {
    let mut seen = Seen::new();
    for (value, count) in serde_json::from_str::<Vec<(u64, u64)>>(row.get_ref(3)?.as_str()?)? {
        seen.held.record_n(value, count)?;
    }
    seen.full = row.get::<_, i64>(4)?.cast_unsigned();
    seen.sources = row.get::<_, i64>(5)?.cast_unsigned();
    let measured = Measured {
        policy: row.get(1)?,
        measure: row.get(2)?,
    };
    Ok((row.get(0)?, measured, seen))
}

impl Writer<'_> {
    /// Stores the record of an hour, replacing an earlier one.
    pub fn put_history(&self, hour: i64, measured: &Measured, seen: &Seen) -> anyhow::Result<()> {
        let held = serde_json::to_string(&pairs(&seen.held))?;
        let Measured { policy, measure } = measured;
        let (full, sources) = (seen.full.cast_signed(), seen.sources.cast_signed());
        self.put(
            &HISTORY,
            params![hour, policy, measure, held, full, sources],
        )
    }

    /// Deletes the records before an hour.
    pub fn forget_history(&self, before: i64) -> anyhow::Result<()> {
        self.run("DELETE FROM history WHERE hour < ?1", params![before])
    }
}

fn pairs(held: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = held.iter_recorded();
    recorded
        .map(|step| (step.value_iterated_to(), step.count_at_value()))
        .collect()
}
