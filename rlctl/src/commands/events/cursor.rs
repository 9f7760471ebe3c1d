//! A file that keeps which event was the last one.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use ratelimit_core::api::{Cursor, CursorNow};
use serde_json::Value;

use crate::{client::Client, failure::Failure};

/// A file that keeps the cursor of an event.
pub struct CursorFile<'p> {
    file: &'p Path,
    /// Takes the place of the file, so that it is whole at any moment.
    new: PathBuf,
}

impl<'p> CursorFile<'p> {
    pub fn new(file: &'p Path) -> Self {
        let mut new = OsString::from(file);
        new.push(".new");
        Self {
            file,
            new: new.into(),
        }
    }

    /// Reads the cursor from the file. A missing file is created with the current position of the
    /// journal.
    pub fn read(&self, client: &Client) -> Result<Cursor, Failure> {
        match fs::read_to_string(self.file) {
            Ok(text) => text.trim().parse().map_err(|_| {
                Failure::refused(format!("{} contains no cursor", self.file.display()))
                    .hint("remove the file to start with the next event")
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let now = client.get::<CursorNow>("/v1/events/cursor")?.value.cursor;
                self.write(&now.to_string())?;
                Ok(now)
            }
            Err(error) => Err(self.failed("reading", &error)),
        }
    }

    /// Keeps the cursor of an event. Lost events have none.
    pub fn write_that_of(&self, line: &[u8]) -> Result<(), Failure> {
        let json = serde_json::from_slice::<Value>(line).ok();
        let cursor = json.as_ref().and_then(|json| json["cursor"].as_str());
        cursor.map_or(Ok(()), |cursor| self.write(cursor))
    }

    fn write(&self, cursor: &str) -> Result<(), Failure> {
        fs::write(&self.new, format!("{cursor}\n"))
            .and_then(|()| fs::rename(&self.new, self.file))
            .map_err(|error| self.failed("writing", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Failure {
        Failure::refused(format!("{what} {}: {error}", self.file.display()))
    }
}
