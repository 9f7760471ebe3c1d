//! What sources have sent, by the hour.

use hdrhistogram::Histogram;
use rusqlite::{Row, params};

use super::{Checksum, Store, Writer};
use crate::control::history::seen::{Measured, Seen};

/// The hours are counted since 1970. What windows held is JSON: pairs of how much, and how many windows held it.
pub const TABLE: &str = "
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

/// All rows.
pub const HISTORY: &str =
    "SELECT hour, policy, measure, held, full, sources, checksum FROM history";

impl Store {
    /// What was seen from an hour on.
    pub fn history(&self, since: i64) -> anyhow::Result<Vec<(i64, Measured, Seen)>> {
        let mut history = self.all(HISTORY, read_history)?;
        history.retain(|(hour, ..)| *hour >= since);
        Ok(history)
    }
}

/// A row of [`HISTORY`].
pub fn read_history(row: &Row<'_>) -> anyhow::Result<(i64, Measured, Seen)> {
    let (hour, full, sources) = (row.get(0)?, row.get(4)?, row.get(5)?);
    let text = |column| anyhow::Ok(row.get_ref(column)?.as_str()?);
    let (policy, measure, held) = (text(1)?, text(2)?, text(3)?);
    let sum = sum(hour, [policy, measure, held], full, sources);
    anyhow::ensure!(sum == row.get::<_, u32>(6)?, "its checksum is wrong");
    let mut seen = Seen::new();
    for (value, count) in serde_json::from_str::<Vec<(u64, u64)>>(held)? {
        seen.held.record_n(value, count)?;
    }
    (seen.full, seen.sources) = (full.cast_unsigned(), sources.cast_unsigned());
    let measured = Measured {
        policy: policy.to_owned(),
        measure: measure.to_owned(),
    };
    Ok((hour, measured, seen))
}

impl Writer<'_> {
    /// Keeps what was seen in an hour, in place of what was kept of it.
    pub fn put_history(&self, hour: i64, measured: &Measured, seen: &Seen) -> anyhow::Result<()> {
        let held = serde_json::to_string(&pairs(&seen.held))?;
        let Measured { policy, measure } = measured;
        let (full, sources) = (seen.full.cast_signed(), seen.sources.cast_signed());
        let sum = sum(hour, [policy, measure, &held], full, sources);
        self.run(
            "INSERT OR REPLACE INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![hour, policy, measure, held, full, sources, sum],
        )
    }

    /// Forgets what was seen before an hour.
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

fn sum(hour: i64, texts: [&str; 3], full: i64, sources: i64) -> u32 {
    let sum = Checksum::of("history").integer(hour);
    let sum = texts
        .into_iter()
        .fold(sum, |sum, text| sum.bytes(text.as_bytes()));
    sum.integer(full).integer(sources).sum()
}
