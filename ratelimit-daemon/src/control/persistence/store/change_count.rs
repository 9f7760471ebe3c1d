//! The number of committed changes, in a file next to the database. It detects a database that
//! looks sound but lost some.
//!
//! `PRAGMA quick_check` cannot detect that: SQLite takes a damaged frame of its log for the end,
//! and ignores the frames behind it.
//!
//! The file is written after each commit, and no commit waits for it. So it may be behind the
//! database but is never ahead, unless the end of the database's log was lost. A power failure may
//! lose that, where it was not synced, and keep the file: after a reboot, only the synced changes
//! must be there.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tracing::warn;

/// The file `state.changes`.
pub struct ChangeCount {
    path: PathBuf,
    file: Option<File>,
}

/// The contents of the file: three little-endian numbers and their CRC-32.
#[derive(Clone, Copy)]
pub struct Seen {
    /// The number of committed changes.
    pub changes: u64,
    /// The number of those that were synced to disk.
    pub synced: u64,
    /// The boot of the machine, as a CRC-32 of its identifier.
    pub boot: u32,
}

const LENGTH: usize = 24;

impl Seen {
    /// Returns the number of changes that a sound database has at least.
    pub const fn required(&self, boot: u32) -> u64 {
        if self.boot == boot {
            self.changes
        } else {
            self.synced
        }
    }

    fn record(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.changes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.synced.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.boot.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl ChangeCount {
    /// Opens the file next to the database at `path`.
    pub fn beside(path: &Path) -> Self {
        Self {
            path: path.with_file_name("state.changes"),
            file: None,
        }
    }

    /// Returns what is stored. `None` if the file is missing or damaged.
    pub fn seen(&self) -> Option<Seen> {
        let bytes: [u8; LENGTH] = fs::read(&self.path).ok()?.try_into().ok()?;
        let seen = Seen {
            changes: u64::from_le_bytes(*bytes.first_chunk()?),
            synced: u64::from_le_bytes(*bytes[8..].first_chunk()?),
            boot: u32::from_le_bytes(*bytes[16..].first_chunk()?),
        };
        (seen.record() == bytes).then_some(seen)
    }

    /// Stores the number of committed changes.
    pub fn see(&mut self, seen: Seen) {
        if let Err(error) = self.write(seen) {
            warn!(%error, path = %self.path.display(), "cannot write the number of changes");
        }
    }

    fn write(&mut self, seen: Seen) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::options()
                .create(true)
                .truncate(true)
                .write(true)
                .open(&self.path)?,
        };
        file.write_all_at(&seen.record(), 0)?;
        self.file = Some(file);
        Ok(())
    }
}
