//! Reads the files of lists on other threads.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::clock;
use ratelimit_core::{
    api::Refused,
    config::ListConfig,
    list_file::{self, FileRead},
    lists::Reading,
};

/// A file to read. That may take long, and needs nothing of the controller.
#[derive(Clone, Debug)]
pub struct ListFile {
    /// The name of the list.
    pub name: Arc<str>,
    /// The table of the configuration.
    pub config: ListConfig,
    /// Held while a thread reads the file, or waits for a file system that does not respond.
    pub(crate) reader: Arc<()>,
}

/// The timeout for a file system, for all files that are read together, and for each file after one
/// that did not respond.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_LEFT: Duration = Duration::from_secs(1);
impl ListFile {
    /// Returns the file of a list.
    pub fn new(name: &str, config: &ListConfig) -> Self {
        Self {
            name: name.into(),
            config: config.clone(),
            reader: Arc::default(),
        }
    }

    /// Reads the file.
    pub fn read(&self) -> Result<Reading, Refused> {
        self.read_before_deadline(&Deadline::default())
    }

    /// Reads one of several files, whose file systems must respond before `deadline`.
    pub fn read_before_deadline(&self, deadline: &Deadline) -> Result<Reading, Refused> {
        list_file::take(&self.config, self.bytes_by(deadline), clock::wall())
    }

    /// Reads the bytes of the file. A separate thread waits for the file system, which may never
    /// respond.
    fn bytes_by(&self, deadline: &Deadline) -> io::Result<FileRead> {
        let (path, reader) = (self.config.file.clone(), Arc::clone(&self.reader));
        let (sender, bytes) = mpsc::sync_channel(1);
        thread::Builder::new().name("list".into()).spawn(move || {
            let read = list_file::read_file(&path, clock::wall());
            drop(reader);
            // The receiver may have given up.
            let _ = sender.send(read);
        })?;
        let silence = || Err(io::Error::new(io::ErrorKind::TimedOut, SILENCE));
        let bytes = bytes.recv_timeout(deadline.left());
        bytes.unwrap_or_else(|_| silence())
    }
}

/// The error for a file system that does not respond.
pub const SILENCE: &str = "its file system does not respond";

/// The time by which file systems must respond.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Default for Deadline {
    /// Returns the deadline for files that are read from now on.
    fn default() -> Self {
        Self(clock::monotonic() + PATIENCE)
    }
}

impl Deadline {
    fn left(self) -> Duration {
        let left = self.0.saturating_duration_since(clock::monotonic());
        left.max(PATIENCE_LEFT)
    }
}
