//! A file that keeps which event was the last one.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use ratelimit_core::api::EventRequest;
use serde_json::Value;

use crate::{
    client::{self, Client},
    failure::Failure,
};

/// Where the number of an event is kept.
pub struct Cursor<'p> {
    file: &'p Path,
    /// Takes the place of the file, so that it is whole at any moment.
    new: PathBuf,
}

impl<'p> Cursor<'p> {
    pub fn new(file: &'p Path) -> Self {
        let mut new = OsString::from(file);
        new.push(".new");
        Self {
            file,
            new: new.into(),
        }
    }

    /// The number in the file. Where there is no file, it is made, with the number of the last event that the daemon has.
    pub fn read(&self, client: &Client) -> Result<u64, Failure> {
        match fs::read_to_string(self.file) {
            Ok(text) => text.trim().parse().map_err(|_| {
                Failure::refused(format!("{} holds no number", self.file.display()))
                    .hint("remove it to begin with the next event")
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let number = last(client)?;
                self.write(number)?;
                Ok(number)
            }
            Err(error) => Err(self.failed("reading", &error)),
        }
    }

    /// Keeps the number of an event.
    pub fn write_number_of(&self, line: &[u8]) -> Result<(), Failure> {
        match number_of(line) {
            // What was lost has no number.
            None | Some(0) => Ok(()),
            Some(number) => self.write(number),
        }
    }

    fn write(&self, number: u64) -> Result<(), Failure> {
        fs::write(&self.new, format!("{number}\n"))
            .and_then(|()| fs::rename(&self.new, self.file))
            .map_err(|error| self.failed("writing", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Failure {
        Failure::refused(format!("{what} {}: {error}", self.file.display()))
    }
}

/// The number of the last event that the daemon has; 0 where there is none.
fn last(client: &Client) -> Result<u64, Failure> {
    let request = EventRequest {
        count: Some(1),
        ..EventRequest::default()
    };
    let path = client::with_query("/v1/events", &request);
    let text = client.text(&path)?;
    let last = text.lines().last();
    Ok(last
        .and_then(|line| number_of(line.as_bytes()))
        .unwrap_or(0))
}

fn number_of(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(line).ok()?["number"].as_u64()
}
