//! One daemon at a time: a lock on a file beside the database, which the kernel lets go when the process ends. systemd removes the
//! directory of the socket while a daemon may still run.

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use anyhow::{Context, bail};

use crate::private;

/// The lock, as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of `directory`.
    ///
    /// # Errors
    ///
    /// When another daemon has it.
    pub fn take(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("ratelimitd.lock");
        let file = private::open(&path);
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
