//! One daemon at a time: a lock on a file of the runtime directory, which the kernel lets go when the process ends.

use std::{
    fs::{self, File, TryLockError},
    path::Path,
};

use anyhow::{Context, bail};

/// The lock, as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of `directory`, making the directory when it is missing.
    ///
    /// # Errors
    ///
    /// When another daemon has it.
    pub fn take(directory: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)
            .with_context(|| format!("making the directory {}", directory.display()))?;
        let path = directory.join("ratelimitd.lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                bail!("another ratelimitd is running: it holds {}", path.display())
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("locking {}", path.display()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_daemon_is_told_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let first = Lock::take(directory.path()).unwrap();
        let error = Lock::take(directory.path()).unwrap_err().to_string();
        assert!(error.contains("another ratelimitd is running"), "{error}");
        drop(first);
        Lock::take(directory.path()).unwrap();
    }
}
