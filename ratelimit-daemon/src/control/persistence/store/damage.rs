//! A database that is damaged is put aside, and what can be told to be sound in it goes into a new one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use ratelimit_core::intent::Edit;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi::SQLITE_IOERR_SHORT_READ};
use serde::{Deserialize, Serialize};
use tracing::error;

use super::{
    Store,
    history::{HISTORY, read_history},
    read_clock,
    reader::Reader,
    schema::{BAN, OTHERS, OtherVersion, POLICIES},
    seen::{Measured, Seen},
};
use crate::{
    clock,
    control::time::timekeeper::{Reading, Timekeeper},
};

/// What a database is called that was put aside, before the time.
const ASIDE: &str = "state.db.damaged-";

/// A damaged database.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Damage {
    /// Where the file is, put aside.
    pub file: PathBuf,
    /// What is wrong with it.
    pub error: String,
}

/// Fails where the file at `path`, which SQLite has not opened yet, is not as SQLite left it.
pub fn check_files(path: &Path) -> anyhow::Result<()> {
    match fs::metadata(path) {
        Ok(file) if file.len() == 0 => bail!("it is empty"),
        _ => Ok(()),
    }
}

/// Fails where the structure of the file is damaged.
pub fn check_structure(connection: &Connection) -> anyhow::Result<()> {
    let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    anyhow::ensure!(answer == "ok", "{answer}");
    Ok(())
}

/// Whether an error comes from the contents of the file. What comes from the system (no permission, no space, somebody else's
/// lock) or from another version is no reason to put the file aside. A file that ends within a page is damaged: pages behind
/// others of their row are read past SQLite's cache, which would take what is missing for zeros.
pub fn is_damage(error: &anyhow::Error) -> bool {
    let of_system = |error: &rusqlite::Error| {
        let sqlite = error.sqlite_error();
        if sqlite.is_some_and(|error| error.extended_code == SQLITE_IOERR_SHORT_READ) {
            return false;
        }
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::CannotOpen
                    | ErrorCode::PermissionDenied
                    | ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::OutOfMemory
            )
        )
    };
    !error.chain().any(|cause| {
        cause.is::<OtherVersion>()
            || cause.is::<std::io::Error>()
            || cause
                .downcast_ref::<rusqlite::Error>()
                .is_some_and(of_system)
    })
}

/// Where the database at `path` is to be put aside.
pub fn name_aside(path: &Path) -> PathBuf {
    let time = clock::wall().strftime("%Y%m%dT%H%M%SZ");
    let names = (0..).map(|number: u32| match number {
        0 => format!("{ASIDE}{time}"),
        number => format!("{ASIDE}{time}-{number}"),
    });
    let mut files = names.map(|name| path.with_file_name(name));
    files.find(|file| !file.exists()).expect("without end")
}

/// Puts the database at `path` aside as `aside`, with its log, as far as that was not done before.
pub fn put_aside(path: &Path, aside: &Path) -> anyhow::Result<()> {
    for suffix in ["-wal", ""] {
        let (from, to) = (with_suffix(path, suffix), with_suffix(aside, suffix));
        if from.exists() && !to.exists() {
            rename(&from, &to)?;
        }
    }
    Ok(())
}

/// How many databases were put aside in `directory`, this time or before.
pub fn count_aside(directory: &Path) -> usize {
    let is_aside =
        |name: &str| name.starts_with(ASIDE) && !name.ends_with("-wal") && !name.ends_with("-shm");
    fs::read_dir(directory).map_or(0, |entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| is_aside(name)).count()
    })
}

impl Store {
    /// Takes over what is sound in a file that was put aside, and answers how many rows that are.
    pub(super) fn salvage(&mut self, file: &Path) -> anyhow::Result<usize> {
        let boot = self.timekeeper.boot().to_owned();
        let rows = match sound_rows(file, &boot) {
            Ok(rows) => rows,
            Err(error) => {
                error!(
                    error = format!("{error:#}"),
                    "cannot read any row of the damaged database"
                );
                return Ok(0);
            }
        };
        let (edits, history) = (rows.edits, rows.history);
        if let Some(timekeeper) = rows.timekeeper {
            self.timekeeper = timekeeper;
        }
        let written = self.transaction(|writer| {
            edits.iter().try_for_each(|edit| writer.write(edit))?;
            let mut history = history.iter();
            history.try_for_each(|(hour, measured, seen)| writer.put_history(*hour, measured, seen))
        });
        match written {
            Ok(()) => Ok(edits.len() + history.len()),
            // Of a disk that is full, among others, the next start may find more.
            Err(error) if !is_damage(&error) => Err(error),
            Err(error) => {
                error!(
                    error = format!("{error:#}"),
                    "cannot recover the readable rows of the damaged database"
                );
                Ok(0)
            }
        }
    }
}

/// What a daemon that starts over the database at `path` would find: whether it is sound, and what is adopted of it. Nothing is put
/// aside, and no other database made, which takes far longer.
#[cfg(test)]
pub fn finding(path: &Path, boot: &str) -> (bool, Vec<String>) {
    let is_sound = match Store::open_sound(path, boot) {
        Ok(_) => true,
        Err(error) => {
            assert!(is_damage(&error), "{error:#}");
            false
        }
    };
    let rows = sound_rows(path, boot).map_or_else(
        |_| Vec::new(),
        |rows| {
            let edits = rows.edits.iter().map(|edit| format!("{edit:?}"));
            let history = rows.history.iter().map(|row| format!("{row:?}"));
            edits.chain(history).collect()
        },
    );
    (is_sound, rows)
}

/// The clock and the rows whose checksum is right.
struct SoundRows {
    timekeeper: Option<Timekeeper>,
    edits: Vec<Edit>,
    history: Vec<(i64, Measured, Seen)>,
}

/// What is sound, as far as SQLite gets.
fn sound_rows(file: &Path, boot: &str) -> anyhow::Result<SoundRows> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    let note = read_clock(&connection).ok().flatten();
    let timekeeper = note.map(|note| Timekeeper::resume(Some(&note), boot, Reading::now()));
    let lost = Timekeeper::resume(None, "", Reading::now());
    let mut reader = Reader::of(&connection, timekeeper.as_ref().unwrap_or(&lost));
    let mut edits = BAN.read_sound(&connection, |row| {
        let (prefix, origin, ban) = reader.ban(row)?;
        Ok(Edit::Ban(prefix, origin, Some(ban)))
    });
    for (table, read) in POLICIES.iter().chain(&OTHERS) {
        edits.extend(table.read_sound(&connection, |row| read(&mut reader, row)));
    }
    // Without the clock ends mean nothing: the kernel may know what has one, and bans.
    edits.retain(|edit| {
        let is_endless =
            matches!(edit, Edit::Allow(..) | Edit::Limits(..)) && edit.ending().is_none();
        timekeeper.is_some() || is_endless
    });
    Ok(SoundRows {
        timekeeper,
        edits,
        history: HISTORY.read_sound(&connection, read_history),
    })
}

pub fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("renaming {} to {}", from.display(), to.display()))
}

pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
