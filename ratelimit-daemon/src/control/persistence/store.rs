//! What is intended beside the configuration, in SQLite: bans of every origin, and what was set at runtime. The kernel's maps are
//! what is enforced.

mod change_count;
mod commit_stats;
mod damage;
mod flush;
mod history;
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
pub mod usage_histogram;
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
        time::timekeeper::{Moment, Note, Reading, Timekeeper},
    },
    private,
};

/// The pages in the log, of 4 KiB, from which on whoever commits brings them over into the database.
const LOG_PAGES: i64 = 16_384;

/// How long a change waits for somebody who looks at the database for a moment. Where they take longer, it is written later
/// (`unwritten.rs`).
const PATIENCE: Duration = Duration::from_millis(100);

/// The database.
pub struct Store {
    connection: Connection,
    timekeeper: Timekeeper,
    directory: PathBuf,
    /// Device and inode of its file.
    file: [u64; 2],
    found: Found,
    /// How many changes were committed.
    changes: u64,
    change_count: ChangeCount,
    flusher: Flusher,
    commits: Commits,
    /// Is told of changes that were written.
    pub progress: Progress,
    /// The bans as they were read when the file was opened, until they are asked for or something changes.
    read: RefCell<Option<Vec<(Prefix, Origin, EntryRow)>>>,
}

/// What was found where the database is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A database that is sound.
    Sound,
    /// Nothing.
    Nothing,
    /// A damaged database.
    Damaged(Damage),
}

/// The daemon's clock before and after it was found that the machine slept, or how long it was off.
pub struct Moved {
    before: Timekeeper,
    after: Timekeeper,
}

impl Moved {
    /// The point on the kernel's clock for what was to end at another one.
    pub fn end(&self, until: Instant) -> Instant {
        if until == FOREVER {
            return FOREVER;
        }
        self.after.instant(self.before.time(until))
    }
}

impl Store {
    /// Opens the database `state.db` in `directory`, or makes it. A damaged one is put aside as `state.db.damaged-TIME`, and an empty
    /// one takes its place.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written, or is one of a newer version. What was begun then is ended by the next call.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("state.db");
        let opened = Self::open_or_replace(&path, &clock::boot_id());
        opened.with_context(|| format!("opening the database {}", path.display()))
    }

    fn open_sound(path: &Path, boot: &str) -> anyhow::Result<Self> {
        damage::check_files(path)?;
        let seen = ChangeCount::beside(path).seen();
        let mut store = Self::open_file(path, boot, seen)?;
        damage::check_structure(&store.connection)?;
        store.check_rows()?;
        if store.changes == 0 {
            store.found = Found::Nothing;
        } else {
            // What is damaged is put aside as it was found.
            store.note_time(Reading::now())?;
        }
        Ok(store)
    }

    /// Opens a file that has to know at least the changes that were `seen`.
    fn open_file(path: &Path, boot: &str, seen: Option<u64>) -> anyhow::Result<Self> {
        // SQLite gives the log the mode of the database.
        private::open(path)?;
        let mut connection = Connection::open(path)?;
        // A write that was acknowledged outlives the process. Waiting for the disk as well (FULL) takes 4 ms a commit in place of
        // 13 us (medians of 300, virtual disk): the log is brought there once a second (`flush.rs`).
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // What was deleted is not found in a damaged file as if it were there.
        connection.pragma_update(None, "secure_delete", "ON")?;
        // Another thread does so first (`flush.rs`), unless changes are large or come too fast for it.
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        schema::prepare(&mut connection)?;
        let changes = read_changes(&connection)?;
        if let Some(seen) = seen {
            ensure!(seen <= changes, "it knows {changes} of {seen} changes");
        }
        let note = read_clock(&connection)?;
        // Without it the ends of bans mean nothing, and each change is behind one.
        ensure!(note.is_some() || changes == 0, "the row of `clock` is gone");
        let timekeeper = Timekeeper::resume(note.as_ref(), boot, Reading::now());
        connection.busy_timeout(PATIENCE)?;
        Ok(Self {
            connection,
            timekeeper,
            directory: path.parent().unwrap_or(path).to_owned(),
            file: moving::file_at(path)?.unwrap_or_default(),
            found: Found::Sound,
            changes,
            change_count: ChangeCount::beside(path),
            flusher: Flusher::of(path, changes),
            commits: Commits::default(),
            progress: Progress::default(),
            read: RefCell::default(),
        })
    }

    /// Whether the database in `directory` knows more changes than that in `other`.
    pub fn is_newer(directory: &Path, other: &Path) -> bool {
        let seen = |directory: &Path| ChangeCount::beside(&directory.join("state.db")).seen();
        seen(directory) > seen(other)
    }

    /// How many changes it knows.
    #[cfg(test)]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// What was found when it was opened.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// How many damaged databases lie beside this one.
    pub fn count_aside(&self) -> usize {
        damage::count_aside(&self.directory)
    }

    /// How commits went since it was opened.
    pub const fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Takes in what the clocks show, and answers where the ends of what ends are now, if those are other points on the kernel's
    /// clock than before.
    pub fn keep_time(&mut self, now: Reading) -> Option<Moved> {
        let before = self.timekeeper.clone();
        let moved = self.timekeeper.advance(now);
        if moved {
            self.read.take();
        }
        if (moved || self.timekeeper.should_note(now))
            && let Err(error) = self.note_time(now)
        {
            let error = format!("{error:#}");
            warn!(error, "the time could not be noted in the database");
        }
        moved.then(|| Moved {
            before,
            after: self.timekeeper.clone(),
        })
    }

    /// The point on the daemon's clock that `instant`, one of the kernel's, is: it continues over a reboot. In nanoseconds.
    pub fn time(&self, instant: Instant) -> i64 {
        self.timekeeper.time(instant)
    }

    /// Brings what was committed to the disk, soon.
    pub fn flush(&mut self) {
        self.flusher.flush(self.changes);
    }

    fn note_time(&mut self, now: Reading) -> anyhow::Result<()> {
        let note = self.timekeeper.note(now);
        self.transaction(|writer| writer.write_clock(&note))
    }

    /// All bans, in the order of their prefixes.
    pub fn bans(&self) -> anyhow::Result<Vec<(Prefix, Origin, EntryRow)>> {
        if let Some(read) = self.read.take() {
            return Ok(read);
        }
        let mut reader = Reader::of(&self.connection, &self.timekeeper);
        let mut before = Vec::new();
        let mut key = Vec::new();
        BAN.read(&self.connection, |row| {
            // As SQLite orders them.
            key.clear();
            key.extend_from_slice(row.get_ref(0)?.as_blob()?);
            key.extend_from_slice(row.get_ref(1)?.as_bytes()?);
            ensure!(before < key, "it is out of order");
            std::mem::swap(&mut before, &mut key);
            reader.ban(row)
        })
    }

    /// The rows of these tables.
    fn edits(&self, kinds: &[Kind]) -> anyhow::Result<Vec<Edit>> {
        let mut reader = Reader::of(&self.connection, &self.timekeeper);
        let mut edits = Vec::new();
        for (table, read) in kinds {
            edits.extend(table.read(&self.connection, |row| read(&mut reader, row))?);
        }
        Ok(edits)
    }

    /// Fails where a row is not sound.
    fn check_rows(&self) -> anyhow::Result<()> {
        let bans = self.bans()?;
        self.read.replace(Some(bans));
        self.edits(&POLICIES)?;
        self.edits(&OTHERS)?;
        self.history(0).map(drop)
    }
}

/// How many changes the database knows.
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
