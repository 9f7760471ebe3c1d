//! The events on disk, over restarts: `events.db`, SQLite beside the database.
//!
//! It has a file of its own: nothing is enforced by it, so where it is damaged it begins anew, and where it cannot be written events
//! wait in memory. It is bounded by its rows and by their age.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use jiff::SignedDuration;
use ratelimit_core::api::Event;
use rusqlite::{Connection, params};
use tracing::{info, warn};

use super::reminder::Reminder;
use crate::{clock, private};

/// The changes that are kept.
pub const ROWS_MAX: usize = 1_000;
/// The same, as numbers of rows are counted.
const NUMBERS_MAX: u64 = ROWS_MAX as u64;
/// How long they are kept.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Rows after which those that are too many or too old are forgotten.
const FORGET_EVERY: usize = 100;

/// The file.
pub struct EventLog {
    path: PathBuf,
    connection: Option<Connection>,
    /// Rows that were written since some were forgotten.
    written: usize,
    reminder: Reminder,
}

impl EventLog {
    /// That of a state directory, and the events in it. One that is damaged begins anew.
    pub fn open(directory: &Path) -> (Self, Vec<Event>) {
        let mut log = Self {
            path: directory.join("events.db"),
            connection: None,
            written: FORGET_EVERY,
            reminder: Reminder::default(),
        };
        let events = log.connect().and_then(|()| log.read());
        let events = events.unwrap_or_else(|error| {
            if is_damage(&error) {
                log.begin_anew(&error);
            } else {
                log.warn(&error);
            }
            Vec::new()
        });
        (log, events)
    }

    /// Keeps events; `false` where they are to be written again later.
    pub fn write(&mut self, events: &[Arc<Event>]) -> bool {
        match self.try_write(events) {
            Ok(()) => true,
            Err(error) if is_damage(&error) => {
                self.begin_anew(&error);
                false
            }
            Err(error) => {
                self.connection = None;
                self.warn(&error);
                false
            }
        }
    }

    fn connect(&mut self) -> anyhow::Result<()> {
        if self.connection.is_some() {
            return Ok(());
        }
        private::open(&self.path).with_context(|| format!("opening {}", self.path.display()))?;
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(std::time::Duration::ZERO)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS event (
                number INTEGER PRIMARY KEY,
                at_ns INTEGER NOT NULL,
                event TEXT NOT NULL             -- JSON
            ) STRICT;
            CREATE INDEX IF NOT EXISTS event_at ON event (at_ns);",
        )?;
        self.connection = Some(connection);
        Ok(())
    }

    fn read(&self) -> anyhow::Result<Vec<Event>> {
        let Some(connection) = &self.connection else {
            return Ok(Vec::new());
        };
        let oldest = oldest()?;
        let query = "SELECT event FROM (SELECT number, event FROM event WHERE at_ns >= ?1
             ORDER BY number DESC LIMIT ?2) ORDER BY number";
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query(params![oldest, NUMBERS_MAX.cast_signed()])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            // One of a newer version is not understood, and hides no other.
            if let Ok(event) = serde_json::from_str(row.get_ref(0)?.as_str()?) {
                events.push(event);
            }
        }
        Ok(events)
    }

    fn try_write(&mut self, events: &[Arc<Event>]) -> anyhow::Result<()> {
        self.connect()?;
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let transaction = connection.transaction()?;
        {
            let put = "INSERT OR REPLACE INTO event VALUES (?1, ?2, ?3)";
            let mut put = transaction.prepare_cached(put)?;
            for event in events {
                let at = i64::try_from(event.at.as_nanosecond())?;
                let text = serde_json::to_string(&**event)?;
                put.execute(params![event.number.cast_signed(), at, text])?;
            }
        }
        self.written += events.len();
        if self.written >= FORGET_EVERY {
            let last = events.last().map_or(0, |event| event.number);
            let first = last.saturating_sub(NUMBERS_MAX).cast_signed();
            let forget = "DELETE FROM event WHERE number <= ?1 OR at_ns < ?2";
            transaction.execute(forget, params![first, oldest()?])?;
            self.written = 0;
        }
        Ok(transaction.commit()?)
    }

    fn begin_anew(&mut self, error: &anyhow::Error) {
        let error = format!("{error:#}");
        warn!(error, path = %self.path.display(), "the journal of changes is damaged, and begins anew");
        self.connection = None;
        for suffix in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            let _ = std::fs::remove_file(path);
        }
    }

    fn warn(&mut self, error: &anyhow::Error) {
        if self.reminder.is_due() {
            let error = format!("{error:#}");
            info!(error, path = %self.path.display(), "the journal of changes is not kept for the moment");
        }
    }
}

fn oldest() -> anyhow::Result<i64> {
    let oldest = clock::wall().saturating_sub(AGE_MAX)?;
    Ok(i64::try_from(oldest.as_nanosecond())?)
}

fn is_damage(error: &anyhow::Error) -> bool {
    let code = error
        .downcast_ref::<rusqlite::Error>()
        .and_then(rusqlite::Error::sqlite_error_code);
    matches!(
        code,
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use ratelimit_core::api::What;

    #[test]
    fn the_last_changes_are_found_again_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let (mut log, before) = EventLog::open(directory.path());
        assert_eq!(before, []);
        for number in 1..=2 * NUMBERS_MAX {
            assert!(log.write(&[event(number, clock::wall())]));
        }
        let (_, after) = EventLog::open(directory.path());
        let numbers = after.iter().map(|event| event.number);
        assert!(numbers.eq(NUMBERS_MAX + 1..=2 * NUMBERS_MAX));
        let rows = log.connection.unwrap();
        let rows: i64 = rows
            .query_row("SELECT count(*) FROM event", [], |row| row.get(0))
            .unwrap();
        assert!(rows < 1_200, "{rows}");
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let (mut log, _) = EventLog::open(directory.path());
        let long_ago = clock::wall() - AGE_MAX - SignedDuration::from_secs(1);
        assert!(log.write(&[event(1, long_ago), event(2, clock::wall())]));
        let (_, found) = EventLog::open(directory.path());
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn one_that_is_damaged_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("events.db"), [7; 5000]).unwrap();
        let (mut log, found) = EventLog::open(directory.path());
        assert_eq!(found, []);
        assert!(log.write(&[event(1, clock::wall())]));
        drop(log);
        assert_eq!(EventLog::open(directory.path()).1.len(), 1);
    }

    #[test]
    fn where_it_cannot_be_made_events_wait() {
        let directory = tempfile::tempdir().unwrap();
        let obstacle = directory.path().join("events.db");
        std::fs::create_dir(&obstacle).unwrap();
        let (mut log, found) = EventLog::open(directory.path());
        assert_eq!(found, []);
        let event = event(1, clock::wall());
        assert!(!log.write(&[Arc::clone(&event)]));
        std::fs::remove_dir(&obstacle).unwrap();
        assert!(log.write(&[event]));
    }

    fn event(number: u64, at: Timestamp) -> Arc<Event> {
        let what = What::Reloaded { changes: vec![] };
        Arc::new(Event { number, at, what })
    }
}
