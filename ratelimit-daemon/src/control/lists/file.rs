//! The files of lists, read beside the controller.

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

/// A file to be read. That takes a while and needs nothing of the controller.
#[derive(Clone, Debug)]
pub struct ListFile {
    /// The name of the list.
    pub name: Arc<str>,
    /// What the configuration says of it.
    pub config: ListConfig,
    /// Is held as long as somebody reads the file, or waits for a file system that does not answer.
    pub(crate) reader: Arc<()>,
}

/// How long a file system may take to answer, for all files that are read together, and for each of them behind one that does not.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_LEFT: Duration = Duration::from_secs(1);
impl ListFile {
    /// The file of a list.
    pub fn new(name: &str, config: &ListConfig) -> Self {
        Self {
            name: name.into(),
            config: config.clone(),
            reader: Arc::default(),
        }
    }

    /// Reads the file.
    pub fn read(&self) -> Result<Reading, Refused> {
        self.read_by(&Deadline::default())
    }

    /// The same of one of several files, whose file systems may take until `deadline` to answer.
    pub fn read_by(&self, deadline: &Deadline) -> Result<Reading, Refused> {
        list_file::take(&self.config, self.bytes_by(deadline), clock::wall())
    }

    /// What stands in the file. A thread of its own waits for the file system, which may never answer.
    fn bytes_by(&self, deadline: &Deadline) -> io::Result<FileRead> {
        let (path, reader) = (self.config.file.clone(), Arc::clone(&self.reader));
        let (sender, bytes) = mpsc::sync_channel(1);
        thread::Builder::new().name("list".into()).spawn(move || {
            let read = list_file::read_file(&path, clock::wall());
            drop(reader);
            // Nobody may wait any more.
            let _ = sender.send(read);
        })?;
        let silence = || Err(io::Error::new(io::ErrorKind::TimedOut, SILENCE));
        let bytes = bytes.recv_timeout(deadline.left());
        bytes.unwrap_or_else(|_| silence())
    }
}

/// What is said of a file system that does not answer.
pub const SILENCE: &str = "its file system does not respond";

/// Until when file systems may take to answer.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Default for Deadline {
    /// That of files that are read from now on.
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
