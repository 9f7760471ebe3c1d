//! The database, SQLite: bans of every origin and other runtime settings. Together with the
//! configuration this is the intent; the kernel's maps contain what is enforced.

mod change_count;
mod commit_stats;
mod damage;
mod flush;
mod limited;
mod lists;
mod moving;
mod offences;
mod reader;
mod replace;
mod restore;
mod schema;
mod table;
mod text;
mod transaction;
mod writer;

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use ratelimit_common::Instant;
use ratelimit_core::{
    intent::{Edit, EntryRow, FOREVER},
    origin::Origin,
    prefix::Prefix,
};
use rusqlite::Connection;
use tracing::warn;

use self::{
    change_count::ChangeCount,
    flush::Flusher,
    reader::Reader,
    schema::{BAN, CHANGE, CLOCK, Kind, OTHERS, POLICIES},
};
pub use self::{commit_stats::Commits, damage::Damage, table::Writer};
use crate::{
    clock,
    control::{
        reports::progress::Progress,
        time::ban_clock::{BanClock, Moment, Note, Reading},
    },
    private,
};

/// The pages of the log, of 4 KiB, after which a commit has to write them back to the database.
const LOG_PAGES: i64 = 16_384;

/// The longest wait of a change while another process reads the database. After that it is written
/// later (`unwritten.rs`).
const PATIENCE: Duration = Duration::from_millis(100);

/// The database.
pub struct Store {
    connection: Connection,
    ban_clock: BanClock,
    directory: PathBuf,
    /// Device and inode of its file.
    file: [u64; 2],
    found: Found,
    /// The number of committed changes.
    changes: u64,
    change_count: ChangeCount,
    /// The boot of the machine, as in [`Seen`](change_count::Seen).
    boot: u32,
    flusher: Flusher,
    commits: Commits,
    /// Receives the number of written changes.
    pub progress: Progress,
    /// The bans as read when the file was opened, until they are taken or something changes.
    read: RefCell<Option<Vec<(Prefix, Origin, EntryRow)>>>,
}

/// The state of the database when it was opened.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Sound,
    /// No database.
    Nothing,
    /// A damaged database.
    Damaged(Damage),
}

/// The daemon's clock before and after a suspend was noticed, or the length of a power-off became
/// known.
pub struct Moved {
    before: BanClock,
    after: BanClock,
}

impl Moved {
    /// Returns the new point on the kernel's clock for an end.
    pub fn end(&self, until: Instant) -> Instant {
        if until == FOREVER {
            return FOREVER;
        }
        self.after.instant(self.before.time(until))
    }
}

impl Store {
    /// Opens or creates the database `state.db` in `directory`. A damaged one is renamed to
    /// `state.db.damaged-TIME` and replaced by an empty one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written, or belongs to a newer version. The next call
    /// completes what was begun.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("state.db");
        let opened = Self::open_or_replace(&path, &clock::boot_id());
        opened.with_context(|| format!("opening the database {}", path.display()))
    }

    fn open_sound(path: &Path, boot: &str) -> anyhow::Result<Self> {
        damage::check_files(path)?;
        let seen = ChangeCount::beside(path).seen();
        let required = seen.map(|seen| seen.required(crc32fast::hash(boot.as_bytes())));
        let mut store = Self::open_file(path, boot, required)?;
        damage::check_structure(&store.connection)?;
        store.check_rows()?;
        if store.changes == 0 {
            store.found = Found::Nothing;
        } else {
            // Write only now, so that a damaged file is kept as it was found.
            store.note_time(Reading::now())?;
        }
        Ok(store)
    }

    /// Opens a file that must contain at least the `required` changes.
    fn open_file(path: &Path, boot: &str, required: Option<u64>) -> anyhow::Result<Self> {
        // SQLite gives the log the mode of the database.
        private::open(path)?;
        let mut connection = Connection::open(path)?;
        // An acknowledged write survives the process. Waiting for the disk as well (FULL) takes 4
        // ms per commit instead of 13 us (medians of 300, virtual disk). Another thread syncs the
        // log once a second (`flush.rs`).
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // Deleted data must not reappear in a damaged file.
        connection.pragma_update(None, "secure_delete", "ON")?;
        // Another thread checkpoints first (`flush.rs`), unless changes are large or too frequent
        // for it.
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        schema::prepare(&mut connection)?;
        let changes = read_changes(&connection)?;
        if let Some(required) = required {
            ensure!(
                required <= changes,
                "it knows {changes} of {required} changes"
            );
        }
        let note = read_clock(&connection)?;
        // Without the clock, ends of bans have no meaning. Every change is preceded by a note of
        // it.
        ensure!(note.is_some() || changes == 0, "the row of `clock` is gone");
        let ban_clock = BanClock::resume(note.as_ref(), boot, Reading::now());
        connection.busy_timeout(PATIENCE)?;
        Ok(Self {
            connection,
            ban_clock,
            directory: path.parent().unwrap_or(path).to_owned(),
            file: moving::file_at(path)?.unwrap_or_default(),
            found: Found::Sound,
            changes,
            change_count: ChangeCount::beside(path),
            boot: crc32fast::hash(boot.as_bytes()),
            flusher: Flusher::of(path, changes),
            commits: Commits::default(),
            progress: Progress::default(),
            read: RefCell::default(),
        })
    }

    /// Returns whether the database in `directory` has more changes than the one in `other`.
    pub fn is_newer(directory: &Path, other: &Path) -> bool {
        let changes = |directory: &Path| {
            let seen = ChangeCount::beside(&directory.join("state.db")).seen();
            seen.map(|seen| seen.changes)
        };
        changes(directory) > changes(other)
    }

    /// Returns the number of changes in it.
    #[cfg(test)]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the state of the database when it was opened.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Counts the damaged databases that were kept next to this one.
    pub fn count_damaged(&self) -> usize {
        damage::count_damaged(&self.directory)
    }

    /// Returns statistics of the commits since it was opened.
    pub const fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Records the clocks. If ends are now at other points on the kernel's clock, returns how to
    /// convert them.
    pub fn keep_time(&mut self, now: Reading) -> Option<Moved> {
        let before = self.ban_clock.clone();
        let moved = self.ban_clock.advance(now);
        if moved {
            self.read.take();
        }
        if (moved || self.ban_clock.should_note(now))
            && let Err(error) = self.note_time(now)
        {
            let error = format!("{error:#}");
            warn!(error, "the time could not be noted in the database");
        }
        moved.then(|| Moved {
            before,
            after: self.ban_clock.clone(),
        })
    }

    /// Converts an instant of the kernel's clock to the daemon's clock, which continues over a
    /// reboot, in nanoseconds.
    pub fn time(&self, instant: Instant) -> i64 {
        self.ban_clock.time(instant)
    }

    /// Syncs committed data to the disk soon.
    pub fn flush(&mut self) {
        self.flusher.flush(self.changes);
    }

    fn note_time(&mut self, now: Reading) -> anyhow::Result<()> {
        let note = self.ban_clock.note(now);
        self.transaction(|writer| writer.write_clock(&note))
    }

    /// Returns all bans, ordered by prefix.
    pub fn bans(&self) -> anyhow::Result<Vec<(Prefix, Origin, EntryRow)>> {
        if let Some(read) = self.read.take() {
            return Ok(read);
        }
        let mut reader = Reader::of(&self.connection, &self.ban_clock);
        let mut before = Vec::new();
        let mut key = Vec::new();
        BAN.read(&self.connection, |row| {
            // The order of SQLite.
            key.clear();
            key.extend_from_slice(row.get_ref(0)?.as_blob()?);
            key.extend_from_slice(row.get_ref(1)?.as_bytes()?);
            ensure!(before < key, "it is out of order");
            std::mem::swap(&mut before, &mut key);
            reader.ban(row)
        })
    }

    /// Returns the rows of these tables.
    fn edits(&self, kinds: &[Kind]) -> anyhow::Result<Vec<Edit>> {
        let mut reader = Reader::of(&self.connection, &self.ban_clock);
        let mut edits = Vec::new();
        for (table, read) in kinds {
            edits.extend(table.read(&self.connection, |row| read(&mut reader, row))?);
        }
        Ok(edits)
    }

    /// Fails if a row is damaged.
    fn check_rows(&self) -> anyhow::Result<()> {
        let bans = self.bans()?;
        self.read.replace(Some(bans));
        self.edits(&POLICIES)?;
        self.edits(&OTHERS).map(drop)
    }
}

/// Returns the number of changes in the database.
fn read_changes(connection: &Connection) -> anyhow::Result<u64> {
    let found = CHANGE.read(connection, |row| Ok(row.get::<_, i64>(0)?))?;
    Ok(found.first().map_or(0, |number| number.cast_unsigned()))
}

fn read_clock(connection: &Connection) -> anyhow::Result<Option<Note>> {
    let mut found = CLOCK.read(connection, |row| {
        let unsettled = row.get::<_, Option<i64>>(5)?.zip(row.get(6)?);
        Ok(Note {
            boot: row.get(0)?,
            ahead_ns: row.get(1)?,
            asleep_ns: row.get(2)?,
            moment: Moment {
                time: row.get(3)?,
                wall: row.get(4)?,
            },
            unsettled: unsettled.map(|(time, wall)| Moment { time, wall }),
        })
    })?;
    Ok(found.pop())
}

#[cfg(test)]
mod tests;
