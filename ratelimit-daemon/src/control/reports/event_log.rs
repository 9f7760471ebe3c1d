//! The events on disk, over restarts: `events.db`, an SQLite file next to the database.
//!
//! It is separate because nothing depends on it for enforcement: if it is damaged, a new one is
//! created, and if it cannot be written, events wait in memory. The number and the age of its rows
//! are limited.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use jiff::SignedDuration;
use ratelimit_core::api::Event;
use rusqlite::{Connection, params};
use tracing::{info, warn};

use super::{journal::Journal, log_throttle::Reminder};
use crate::{clock, private};

/// The most stored changes by users, and the most caused by traffic.
pub const ROWS_MAX: usize = 1_000;
/// The age at which events are deleted.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(90 * 24);
/// New rows after which excess and old rows are deleted.
const FORGET_EVERY: usize = 100;

pub struct EventLog {
    path: PathBuf,
    connection: Option<Connection>,
    /// Rows written since the last deletion.
    written: usize,
    reminder: Reminder,
}

impl EventLog {
    /// Opens the log of a state directory, and the journal that continues its events. Replaces a
    /// damaged file.
    pub fn open(directory: &Path) -> (Self, Journal) {
        let mut log = Self {
            path: directory.join("events.db"),
            connection: None,
            written: FORGET_EVERY,
            reminder: Reminder::default(),
        };
        let read = log.connect().and_then(|()| log.read());
        let (journal, events) = read.unwrap_or_else(|error| {
            if is_damage(&error) {
                log.recreate(&error);
            } else {
                log.warn(&error);
            }
            (0, Vec::new())
        });
        (log, Journal::after(journal, events))
    }

    /// Writes events. Returns `false` if they must be written again later.
    pub fn write(&mut self, events: &[Arc<Event>]) -> bool {
        match self.try_write(events) {
            Ok(()) => true,
            Err(error) if is_damage(&error) => {
                self.recreate(&error);
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
                number INTEGER PRIMARY KEY,     -- counts rows; that of the event is in it
                at_ns INTEGER NOT NULL,
                event TEXT NOT NULL             -- JSON
            ) STRICT;
            CREATE INDEX IF NOT EXISTS event_at ON event (at_ns);",
        )?;
        if identity(&connection)? == 0 {
            let random: i64 = connection.query_row("SELECT random()", [], |row| row.get(0))?;
            let identity = (random & 0x7fff_ffff) | 1;
            connection.execute_batch(&format!(
                "BEGIN;
                ALTER TABLE event ADD COLUMN is_of_traffic INTEGER NOT NULL DEFAULT 0;
                PRAGMA user_version = {identity};
                COMMIT;"
            ))?;
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Returns the identity of the file and its events.
    fn read(&self) -> anyhow::Result<(u32, Vec<Event>)> {
        let Some(connection) = &self.connection else {
            return Ok((0, Vec::new()));
        };
        let query = "SELECT event FROM event WHERE at_ns >= ?1 ORDER BY number";
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([oldest()?])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            // An event of a newer version cannot be parsed and is skipped.
            if let Ok(event) = serde_json::from_str(row.get_ref(0)?.as_str()?) {
                events.push(event);
            }
        }
        Ok((identity(connection)?, events))
    }

    fn try_write(&mut self, events: &[Arc<Event>]) -> anyhow::Result<()> {
        self.connect()?;
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let transaction = connection.transaction()?;
        {
            let put = "INSERT INTO event (at_ns, event, is_of_traffic) VALUES (?1, ?2, ?3)";
            let mut put = transaction.prepare_cached(put)?;
            for event in events {
                let at = i64::try_from(event.at.as_nanosecond())?;
                let text = serde_json::to_string(&**event)?;
                put.execute(params![at, text, event.what.is_of_traffic()])?;
            }
        }
        self.written += events.len();
        if self.written >= FORGET_EVERY {
            transaction.execute("DELETE FROM event WHERE at_ns < ?1", [oldest()?])?;
            let forget = "DELETE FROM event WHERE is_of_traffic = ?1 AND number <= (SELECT number
                 FROM event WHERE is_of_traffic = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)";
            for is_of_traffic in [false, true] {
                transaction.execute(forget, params![is_of_traffic, ROWS_MAX.cast_signed()])?;
            }
            self.written = 0;
        }
        Ok(transaction.commit()?)
    }

    fn recreate(&mut self, error: &anyhow::Error) {
        let error = format!("{error:#}");
        warn!(
            error, path = %self.path.display(),
            "the journal of changes is damaged; starting a new one"
        );
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
            info!(error, path = %self.path.display(), "cannot write the journal of changes");
        }
    }
}

/// Returns the random identity of the file, or 0 if an older version created it.
fn identity(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
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
        assert_eq!(before.kept(), []);
        let twice = 2 * ROWS_MAX as u64;
        for number in 1..=twice {
            assert!(log.write(&[event(number, clock::wall())]));
        }
        let after = kept(directory.path());
        let numbers = after.iter().map(|event| event.number);
        assert!(numbers.eq(twice / 2 + 1..=twice));
        let rows = log.connection.unwrap();
        let rows: i64 = rows
            .query_row("SELECT count(*) FROM event", [], |row| row.get(0))
            .unwrap();
        assert!(rows < 1_200, "{rows}");
    }

    /// Sampled drops were counted with the changes, and changes by people were forgotten by their
    /// numbers.
    #[test]
    fn no_flood_makes_what_people_changed_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let (mut log, _) = EventLog::open(directory.path());
        assert!(log.write(&[event(1, clock::wall())]));
        for number in 0..2 * ROWS_MAX as u64 {
            let what = What::ChallengeEnded { is_of_dns: false };
            let at = clock::wall();
            let of_traffic = Event {
                number: 10_000 + number,
                cursor: None,
                at,
                what,
            };
            assert!(log.write(&[Arc::new(of_traffic)]));
        }
        let after = kept(directory.path());
        assert_eq!((after.len(), after[0].number), (1 + ROWS_MAX, 1));
    }

    #[test]
    fn a_file_of_an_older_version_is_continued() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.db");
        let older = Connection::open(&path).unwrap();
        let row = serde_json::to_string(&*event(7, clock::wall())).unwrap();
        let at = i64::try_from(clock::wall().as_nanosecond()).unwrap();
        older
            .execute_batch(
                "CREATE TABLE event (number INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL,
                 event TEXT NOT NULL) STRICT;",
            )
            .unwrap();
        older
            .execute("INSERT INTO event VALUES (7, ?1, ?2)", params![at, row])
            .unwrap();
        let (mut log, journal) = EventLog::open(directory.path());
        assert_eq!(journal.cursor().change, 7);
        assert!(log.write(&[event(8, clock::wall())]));
        let numbers = kept(directory.path());
        let numbers = numbers.iter().map(|event| event.number);
        assert!(numbers.eq([7, 8]));
    }

    #[test]
    fn a_daemon_that_could_not_read_it_overwrites_none_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let (mut log, _) = EventLog::open(directory.path());
        assert!(log.write(&[event(1, clock::wall())]));
        let mut other = Journal::default();
        other.record(What::Reloaded { changes: vec![] });
        assert!(log.write(&other.unwritten()));
        assert_eq!(kept(directory.path()).len(), 2);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let (mut log, _) = EventLog::open(directory.path());
        let long_ago = clock::wall() - AGE_MAX - SignedDuration::from_secs(1);
        assert!(log.write(&[event(1, long_ago), event(2, clock::wall())]));
        assert_eq!(kept(directory.path()).len(), 1);
    }

    #[test]
    fn one_that_is_damaged_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("events.db"), [7; 5000]).unwrap();
        let (mut log, found) = EventLog::open(directory.path());
        assert_eq!(found.kept(), []);
        assert!(log.write(&[event(1, clock::wall())]));
        drop(log);
        assert_eq!(kept(directory.path()).len(), 1);
    }

    #[test]
    fn where_it_cannot_be_made_events_wait() {
        let directory = tempfile::tempdir().unwrap();
        let obstacle = directory.path().join("events.db");
        std::fs::create_dir(&obstacle).unwrap();
        let (mut log, found) = EventLog::open(directory.path());
        assert_eq!(found.kept(), []);
        let event = event(1, clock::wall());
        assert!(!log.write(&[Arc::clone(&event)]));
        std::fs::remove_dir(&obstacle).unwrap();
        assert!(log.write(&[event]));
    }

    fn kept(directory: &Path) -> Vec<Arc<Event>> {
        EventLog::open(directory).1.kept()
    }

    fn event(number: u64, at: Timestamp) -> Arc<Event> {
        let what = What::Reloaded { changes: vec![] };
        let cursor = None;
        Arc::new(Event {
            number,
            cursor,
            at,
            what,
        })
    }
}
