//! Detects a damaged database and renames it. It is kept as a whole, because nothing in it can be
//! trusted.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use rusqlite::{Connection, ErrorCode, ffi::SQLITE_IOERR_SHORT_READ};

use super::schema::OtherVersion;
use crate::clock;

/// The name of a renamed database, followed by the time.
const ASIDE: &str = "state.db.damaged-";

#[derive(Clone, Debug, PartialEq)]
pub struct Damage {
    /// The renamed file.
    pub file: PathBuf,
    pub error: String,
}

/// Fails if the file at `path`, which SQLite has not opened yet, is not as SQLite left it.
pub fn check_files(path: &Path) -> anyhow::Result<()> {
    match fs::metadata(path) {
        Ok(file) if file.len() == 0 => bail!("it is empty"),
        _ => Ok(()),
    }
}

/// Fails if the structure of the file is damaged.
pub fn check_structure(connection: &Connection) -> anyhow::Result<()> {
    let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    anyhow::ensure!(answer == "ok", "{answer}");
    Ok(())
}

/// Returns whether an error is caused by the content of the file. Errors of the system (no
/// permission, no space, a lock of another process) and files of another version are no reason to
/// discard the file. A file that ends within a page is damaged: pages that follow others of their
/// row are read past SQLite's cache, which would fill missing bytes with zeros.
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

/// Returns the new name for the database at `path`.
fn damaged_name(path: &Path) -> PathBuf {
    let time = clock::wall().strftime("%Y%m%dT%H%M%SZ");
    let names = (0..).map(|number: u32| match number {
        0 => format!("{ASIDE}{time}"),
        number => format!("{ASIDE}{time}-{number}"),
    });
    let mut files = names.map(|name| path.with_file_name(name));
    files.find(|file| !file.exists()).expect("without end")
}

/// Renames the database at `path` with its log, and returns the new path.
pub fn rename_damaged(path: &Path) -> anyhow::Result<PathBuf> {
    let aside = damaged_name(path);
    for suffix in ["-wal", ""] {
        let (from, to) = (with_suffix(path, suffix), with_suffix(&aside, suffix));
        if from.exists() {
            rename(&from, &to)?;
        }
    }
    Ok(aside)
}

/// Counts the renamed databases in `directory`, including earlier ones.
pub fn count_damaged(directory: &Path) -> usize {
    let is_aside =
        |name: &str| name.starts_with(ASIDE) && !name.ends_with("-wal") && !name.ends_with("-shm");
    fs::read_dir(directory).map_or(0, |entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| is_aside(name)).count()
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
