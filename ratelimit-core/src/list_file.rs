//! The file of a list that a configuration names.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use jiff::Timestamp;

use crate::{
    api::Refused,
    config::ListConfig,
    lists::{self, Acceptance, BYTES_MAX, Reading, Source, Vetting},
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
///
/// # Errors
///
/// As [`read`].
pub fn take(
    config: &ListConfig,
    read: io::Result<(Vec<u8>, Timestamp)>,
    now: Timestamp,
) -> Result<Reading, Refused> {
    let name = config.file.display().to_string();
    let (bytes, written) =
        read.map_err(|error| Refused::because(format!("cannot read {name}: {error}")))?;
    let source = Source {
        name: &name,
        bytes: &bytes,
        now,
        // What a set had left to live, it had when it was saved.
        written,
    };
    let vetting = Vetting {
        force: config.force,
        action: Some(config.action),
    };
    let acceptance = Acceptance {
        skip_bad: config.skip_bad,
        allow_empty: config.allow_empty,
    };
    let reading = lists::read(source, &vetting)?;
    let taken = acceptance.check(&name, &reading).map_err(Refused::from);
    taken.map_err(|refused| {
        if reading.bad.count == 0 {
            return refused;
        }
        // Whoever asks for a reload need not be allowed to read the file.
        let unquoted = Refused {
            error: reading.bad.unquoted(),
            ..refused.clone()
        };
        unquoted.quoting(refused.error)
    })?;
    Ok(reading)
}

/// The bytes of a file, and when it was written. Nobody is waited for: a pipe may have no writer, and no end.
///
/// # Errors
///
/// Those of its file system, which may take as long as it likes.
pub fn read_file(path: &Path, now: Timestamp) -> io::Result<(Vec<u8>, Timestamp)> {
    let mut options = fs::File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let message = "it is no regular file: write the list into one, and name that";
        return Err(io::Error::other(message));
    }
    let written = metadata.modified()?;
    let written = Timestamp::try_from(written).unwrap_or(now);
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        let message = format!("it is larger than {} MiB", BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    Ok((bytes, written))
}
