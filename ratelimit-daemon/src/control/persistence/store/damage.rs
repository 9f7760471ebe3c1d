//! Whether a database is damaged, and how one is put aside: whole, since nothing in it can be trusted.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use rusqlite::{Connection, ErrorCode, ffi::SQLITE_IOERR_SHORT_READ};

use super::schema::OtherVersion;
use crate::clock;

/// What a database is called that was put aside, before the time.
const ASIDE: &str = "state.db.damaged-";

/// A damaged database.
#[derive(Clone, Debug, PartialEq)]
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
fn name_aside(path: &Path) -> PathBuf {
    let time = clock::wall().strftime("%Y%m%dT%H%M%SZ");
    let names = (0..).map(|number: u32| match number {
        0 => format!("{ASIDE}{time}"),
        number => format!("{ASIDE}{time}-{number}"),
    });
    let mut files = names.map(|name| path.with_file_name(name));
    files.find(|file| !file.exists()).expect("without end")
}

/// Puts the database at `path` aside with its log, and answers where it is.
pub fn put_aside(path: &Path) -> anyhow::Result<PathBuf> {
    let aside = name_aside(path);
    for suffix in ["-wal", ""] {
        let (from, to) = (with_suffix(path, suffix), with_suffix(&aside, suffix));
        if from.exists() {
            rename(&from, &to)?;
        }
    }
    Ok(aside)
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

pub fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("renaming {} to {}", from.display(), to.display()))
}

pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
