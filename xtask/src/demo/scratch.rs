//! A directory that is removed with what is in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The directory.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes it.
    pub fn create(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                eprintln!("warning: removing {}: {error}", self.path.display());
            }
            _ => {}
        }
    }
}
