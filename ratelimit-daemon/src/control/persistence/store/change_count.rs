//! The number of committed changes, in a file next to the database. It detects a database that
//! looks sound but lost some.
//!
//! `PRAGMA quick_check` cannot detect that: SQLite takes a damaged frame of its log for the end,
//! and ignores the frames behind it.
//!
//! The file is written after each commit, and no commit waits for it. So it may be behind the
//! database but is never ahead, unless the end of the database's log was lost.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tracing::warn;

/// The file `state.changes`: the number and its CRC-32, little-endian.
pub struct ChangeCount {
    path: PathBuf,
    file: Option<File>,
}

const LENGTH: usize = 12;

impl ChangeCount {
    /// Opens the file next to the database at `path`.
    pub fn beside(path: &Path) -> Self {
        Self {
            path: path.with_file_name("state.changes"),
            file: None,
        }
    }

    /// Returns the stored number. `None` if the file is missing or damaged.
    pub fn seen(&self) -> Option<u64> {
        let bytes: [u8; LENGTH] = fs::read(&self.path).ok()?.try_into().ok()?;
        let number = u64::from_le_bytes(*bytes.first_chunk()?);
        (record(number) == bytes).then_some(number)
    }

    /// Stores the number of committed changes.
    pub fn see(&mut self, number: u64) {
        if let Err(error) = self.write(number) {
            warn!(%error, path = %self.path.display(), "cannot write the number of changes");
        }
    }

    fn write(&mut self, number: u64) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::options()
                .create(true)
                .truncate(true)
                .write(true)
                .open(&self.path)?,
        };
        file.write_all_at(&record(number), 0)?;
        self.file = Some(file);
        Ok(())
    }
}

fn record(number: u64) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..8]);
    bytes[8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}
