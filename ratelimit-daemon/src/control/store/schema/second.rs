//! Version 2: allows and runtime limits had no end, and limits no reason.

use anyhow::{Context, ensure};
use ratelimit_core::intent::{AllowRow, Edit, FOREVER, LimitRow};
use rusqlite::{Connection, Row};

use super::{
    super::{Checksum, Writer, prefix, read_clock, read_target, time},
    RUNTIME_TABLES,
};
use crate::{
    clock,
    control::timekeeper::{Reading, Timekeeper},
};

/// Its allows.
pub const ALLOWS: &str = "SELECT prefix, since_ns, reason, author, checksum FROM allow";
/// Its limits.
pub const LIMITS: &str = "SELECT target, since_ns, limits, author, observe, checksum FROM limits";

/// Makes a file of it one of the next version.
pub fn change(connection: &Connection) -> anyhow::Result<()> {
    let mut edits = read(connection, ALLOWS, read_allow)?;
    edits.extend(read(connection, LIMITS, read_limits)?);
    connection.execute_batch("DROP TABLE allow; DROP TABLE limits;")?;
    connection.execute_batch(RUNTIME_TABLES)?;
    let note = read_clock(connection)?;
    let writer = Writer {
        connection,
        timekeeper: &Timekeeper::resume(note.as_ref(), &clock::boot_id(), Reading::now()),
    };
    edits.iter().try_for_each(|edit| writer.write(edit))
}

fn read(
    connection: &Connection,
    query: &str,
    edit: impl Fn(&Row<'_>) -> anyhow::Result<Edit>,
) -> anyhow::Result<Vec<Edit>> {
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([])?;
    let mut edits = Vec::new();
    while let Some(row) = rows.next()? {
        edits.push(edit(row).with_context(|| format!("reading a row of `{query}`"))?);
    }
    Ok(edits)
}

/// A row of [`ALLOWS`], when its checksum is right.
pub fn read_allow(row: &Row<'_>) -> anyhow::Result<Edit> {
    let key = row.get_ref(0)?.as_blob()?;
    let (reason, author): (Option<String>, String) = (row.get(2)?, row.get(3)?);
    let sum = Checksum::of("allow").bytes(key).integer(row.get(1)?);
    let sum = sum.optional(reason.as_deref()).bytes(author.as_bytes());
    ensure!(sum.sum() == row.get::<_, u32>(4)?, "its checksum is wrong");
    let allow = AllowRow {
        until: FOREVER,
        since: time(row, 1)?,
        reason,
        author,
    };
    Ok(Edit::Allow(prefix(key)?, Some(allow)))
}

/// A row of [`LIMITS`], when its checksum is right.
pub fn read_limits(row: &Row<'_>) -> anyhow::Result<Edit> {
    let target = row.get_ref(0)?.as_blob()?;
    let (text, author) = (row.get_ref(2)?.as_str()?, row.get::<_, String>(3)?);
    let observe = row.get(4)?;
    let sum = Checksum::of("limits").bytes(target).bytes(text.as_bytes());
    let sum = sum.integer(i64::from(observe)).integer(row.get(1)?);
    let sum = sum.bytes(author.as_bytes()).sum();
    ensure!(sum == row.get::<_, u32>(5)?, "its checksum is wrong");
    let limits = LimitRow {
        limits: serde_json::from_str(text)?,
        observe,
        until: FOREVER,
        since: time(row, 1)?,
        reason: None,
        author,
    };
    Ok(Edit::Limits(read_target(target)?, Some(limits)))
}
