//! A document in the state directory: a file of JSON that is replaced whole, or not at all.
//!
//! Beside the database: what stands in here is needed before that is opened, and holds when it is damaged.

use std::{
    fs::{self, File},
    io::{self, Write},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Serialize, de::DeserializeOwned};

/// Where a document of one kind is kept.
#[derive(Clone, Debug)]
pub struct Kept<T> {
    path: PathBuf,
    kind: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Kept<T> {
    /// The document `name` in `directory`.
    pub fn new(directory: &Path, name: &str) -> Self {
        Self {
            path: directory.join(name),
            kind: PhantomData,
        }
    }

    /// What it says; `None` where there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not understood.
    pub fn read(&self) -> anyhow::Result<Option<T>> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| self.context("reading"))?,
        };
        let document = serde_json::from_str(&text).with_context(|| self.context("reading"))?;
        Ok(Some(document))
    }

    /// Replaces it. Whoever reads finds the one before or this one, also after a crash.
    ///
    /// # Errors
    ///
    /// When it cannot be written; then the one before stands.
    pub fn write(&self, document: &T) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(document)?;
        let beside = self.path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)?;
            self.sync_directory()
        };
        write().with_context(|| self.context("writing"))
    }

    /// Removes it, if it is there.
    ///
    /// # Errors
    ///
    /// When it cannot be removed.
    pub fn remove(&self) -> anyhow::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.with_context(|| self.context("removing"))?,
        }
        self.sync_directory()
            .with_context(|| self.context("removing"))
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    }

    fn context(&self, doing: &str) -> String {
        format!("{doing} {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_found_as_it_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Kept::<Vec<u32>>::new(directory.path(), "numbers.json");
        assert_eq!(kept.read().unwrap(), None);
        kept.remove().unwrap();
        kept.write(&vec![1]).unwrap();
        kept.write(&vec![2, 3]).unwrap();
        assert_eq!(kept.read().unwrap(), Some(vec![2, 3]));
        kept.remove().unwrap();
        assert_eq!(kept.read().unwrap(), None);
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Kept::<Vec<u32>>::new(directory.path(), "numbers.json");
        fs::write(directory.path().join("numbers.json"), "[1, tw").unwrap();
        let error = format!("{:#}", kept.read().unwrap_err());
        assert!(error.contains("numbers.json"), "{error}");
    }
}
