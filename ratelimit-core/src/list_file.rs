//! The file of a list that a configuration names.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use crate::{
    api::Refused,
    config::ListConfig,
    diagnostic::unquoted,
    geo,
    lists::{self, Acceptance, BYTES_MAX, ListText, Reading, Vetting},
};

/// Reads the list that a configuration names, at `now`.
///
/// # Errors
///
/// When it cannot be read, or is not taken as a list.
pub fn read(config: &ListConfig, now: Timestamp) -> Result<Reading, Refused> {
    take(config, read_file(&config.file, now), now)
}

/// Takes what was [read](read_file) of the list that a configuration names, at `now`.
pub fn take(
    config: &ListConfig,
    read: io::Result<FileRead>,
    now: Timestamp,
) -> Result<Reading, Refused> {
    let name = config.file.display().to_string();
    let FileRead {
        bytes,
        written,
        fetched,
    } = read.map_err(|error| Refused::because(format!("cannot read {name}: {error}")))?;
    let source = ListText {
        name: &name,
        bytes: &bytes,
        now,
        // Timeouts in a set count from the time it was saved.
        written,
    };
    let vetting = Vetting {
        force: config.force,
        action: Some(config.action),
        min_count: config.min_count,
        json_path: config.json_path.clone(),
    };
    let acceptance = Acceptance {
        skip_bad: config.skip_bad,
        allow_empty: config.allow_empty,
    };
    // The caller of a reload may not be allowed to read the file.
    let read = match &config.selection {
        Some(selection) => geo::read(source, selection, config.allow_empty),
        None => lists::read(source, &vetting),
    };
    let mut reading = read.map_err(|no_list| {
        let refused = Refused::from(no_list);
        let error = unquoted(&refused.error);
        Refused {
            error,
            ..refused.clone()
        }
        .quoting(refused.error)
    })?;
    reading.fetched = config.url.is_some().then_some(fetched);
    let taken = acceptance.check(&name, &reading).map_err(Refused::from);
    taken.map_err(|refused| {
        if reading.bad.count == 0 {
            return refused;
        }
        let error = reading.bad.unquoted();
        Refused {
            error,
            ..refused.clone()
        }
        .quoting(refused.error)
    })?;
    Ok(reading)
}

/// The content of a list file.
#[derive(Debug)]
pub struct FileRead {
    bytes: Vec<u8>,
    written: Timestamp,
    /// The time at which it was last downloaded or found unchanged on the server; without a record
    /// of that, the time of the last write.
    fetched: Timestamp,
}

impl FileRead {
    /// Returns the content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the file that records the last download of a list, since the list itself has the
/// server's time stamp. `None` if the path has no name.
///
/// It contains the entity tag (RFC 9110, section 8.8.3), or nothing if the server sent none.
pub fn tag_file(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    Some(path.with_file_name(format!(".{name}.etag")))
}

/// Reads a file without blocking on pipes, which may have no writer or no end.
///
/// # Errors
///
/// Errors of the file system, which may block.
pub fn read_file(path: &Path, now: Timestamp) -> io::Result<FileRead> {
    let mut options = fs::File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let message = "it is not a regular file: save the list to a file and use that";
        return Err(io::Error::other(message));
    }
    let written = metadata.modified()?;
    let written = Timestamp::try_from(written).unwrap_or(now);
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        let message = format!("it exceeds {} MiB", BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    let tag = tag_file(path).and_then(|tag| fs::metadata(tag).ok()?.modified().ok());
    let fetched = tag.and_then(|time| Timestamp::try_from(time).ok());
    Ok(FileRead {
        bytes,
        written,
        fetched: fetched.unwrap_or(written),
    })
}
