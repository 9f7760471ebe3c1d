//! A JSON document in the state directory, replaced as a whole or not at all. The kernel does not
//! wait for it: it is written as soon as possible.
//!
//! It is separate from the database because it is needed before that is opened, and stays valid if
//! that is damaged. A configuration may contain keys, so only the daemon's user can read it.

use std::{
    fs,
    io::Write,
    marker::PhantomData,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Serialize, de::DeserializeOwned};
use tracing::{info, warn};

use crate::{control::reports::log_throttle::Reminder, private};

/// The file of one kind of document.
#[derive(Clone, Debug)]
pub struct StateFile<T> {
    path: PathBuf,
    kind: PhantomData<fn() -> T>,
    /// The reason the file is outdated; `None` if it is current.
    behind: Option<String>,
    reminder: Reminder,
}

impl<T: Serialize + DeserializeOwned> StateFile<T> {
    /// Opens the document `name` in `directory`.
    pub fn new(directory: &Path, name: &str) -> Self {
        Self {
            path: directory.join(name),
            kind: PhantomData,
            behind: None,
            reminder: Reminder::default(),
        }
    }

    /// Reads the document, if there is one.
    pub fn read(&self) -> anyhow::Result<Option<T>> {
        let text = private::if_there(fs::read_to_string(&self.path));
        let text = text.with_context(|| self.context("reading"))?;
        let document = text.map(|text| serde_json::from_str(&text)).transpose();
        document.with_context(|| self.context("reading"))
    }

    /// Replaces the document. A reader finds the previous one or this one, also after a crash.
    pub fn write(&self, document: &T) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(document)?;
        private::replace(&self.path, |file| file.write_all(&text))
            .with_context(|| self.context("writing"))
    }

    /// Removes the document, if it exists.
    pub fn remove(&self) -> anyhow::Result<()> {
        let removed = private::if_there(fs::remove_file(&self.path));
        let synced = removed.and_then(|removed| match removed {
            Some(()) => private::sync_directory_of(&self.path),
            None => Ok(()),
        });
        synced.with_context(|| self.context("removing"))
    }

    /// Replaces the document, or removes it if `None`.
    pub fn replace(&mut self, document: Option<&T>) -> anyhow::Result<()> {
        document.map_or_else(|| self.remove(), |document| self.write(document))?;
        if self.behind.take().is_some() {
            info!(file = %self.path.display(), "the state is saved");
            self.reminder = Reminder::default();
        }
        Ok(())
    }

    /// Replaces or removes the document. Failures are logged, and retried by
    /// [`catch_up`](Self::catch_up).
    pub fn keep(&mut self, document: Option<&T>) {
        if let Err(error) = self.replace(document) {
            let error = format!("{error:#}");
            if self.reminder.is_due() {
                warn!(
                    error,
                    "cannot save the state, and a restart may undo it; retrying every second"
                );
            }
            self.behind = Some(error);
        }
    }

    /// Retries a failed write.
    pub fn catch_up(&mut self, document: Option<&T>) {
        if self.behind.is_some() {
            self.keep(document);
        }
    }

    /// Returns why the file is outdated, if it is.
    pub fn behind(&self) -> Option<&str> {
        self.behind.as_deref()
    }

    fn context(&self, doing: &str) -> String {
        format!("{doing} {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_document_is_found_as_it_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let kept = StateFile::<Vec<u32>>::new(directory.path(), "numbers.json");
        assert_eq!(kept.read().unwrap(), None);
        kept.remove().unwrap();
        kept.write(&vec![1]).unwrap();
        kept.write(&vec![2, 3]).unwrap();
        assert_eq!(kept.read().unwrap(), Some(vec![2, 3]));
        kept.remove().unwrap();
        assert_eq!(kept.read().unwrap(), None);
    }

    #[test]
    fn what_could_not_be_written_is_written_when_it_can_be() {
        let directory = tempfile::tempdir().unwrap();
        let mut kept = StateFile::<Vec<u32>>::new(directory.path(), "numbers.json");
        let obstacle = directory.path().join("numbers.new");
        fs::create_dir(&obstacle).unwrap();
        kept.keep(Some(&vec![1]));
        kept.catch_up(Some(&vec![1]));
        assert!(kept.behind().unwrap().contains("numbers.json"));
        fs::remove_dir(&obstacle).unwrap();
        kept.catch_up(Some(&vec![1]));
        assert_eq!((kept.behind(), kept.read().unwrap()), (None, Some(vec![1])));
        kept.keep(None);
        assert_eq!((kept.behind(), kept.read().unwrap()), (None, None));
    }

    #[test]
    fn a_document_is_for_the_user_of_the_daemon_alone() {
        let directory = tempfile::tempdir().unwrap();
        let kept = StateFile::<Vec<u32>>::new(directory.path(), "numbers.json");
        // A file that a killed daemon may have left.
        let beside = directory.path().join("numbers.new");
        fs::write(&beside, "[").unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)).unwrap();
        kept.write(&vec![1]).unwrap();
        let file = fs::metadata(directory.path().join("numbers.json")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let kept = StateFile::<Vec<u32>>::new(directory.path(), "numbers.json");
        fs::write(directory.path().join("numbers.json"), "[1, tw").unwrap();
        let error = format!("{:#}", kept.read().unwrap_err());
        assert!(error.contains("numbers.json"), "{error}");
    }
}
