//! One daemon at a time: a lock on a file beside the database, which the kernel lets go when the process ends. systemd removes the
//! directory of the socket while a daemon may still run.

use std::{
    fs::{File, TryLockError},
    io,
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
    /// Takes the lock of a daemon with these directories: that of `state`, or where no file can be made there that of `runtime`. A
    /// disk that is full or read-only keeps nobody from starting.
    pub fn take(state: &Path, runtime: &Path) -> anyhow::Result<Self> {
        let beside = |directory: &Path| directory.join("ratelimitd.lock");
        let mut path = beside(state);
        let file = open(&path).or_else(|_| {
            path = beside(runtime);
            open(&path)
        });
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

/// The file, which is not written to: one that is there does on a disk that is read-only.
fn open(path: &Path) -> io::Result<File> {
    private::open(path).or_else(|_| File::open(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_daemon_is_told_of_the_first() {
        let [state, runtime] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let missing = state.path().join("missing");
        for state in [state.path(), &missing] {
            let first = Lock::take(state, runtime.path()).unwrap();
            let error = Lock::take(state, runtime.path()).unwrap_err().to_string();
            assert!(error.contains("another ratelimitd is running"), "{error}");
            drop(first);
            Lock::take(state, runtime.path()).unwrap();
        }
    }
}
