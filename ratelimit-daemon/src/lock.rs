//! Ensures that only one daemon runs: a lock on a file next to the database, which the kernel
//! releases when the daemon and its loader have ended. systemd may remove the directory of the
//! socket while a daemon is still running.

use std::{
    fs::{File, TryLockError},
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use tracing::info;

use crate::{clock, private};

/// The time for the loader of a killed daemon to exit. The kernel may be verifying its program, on
/// a machine under attack.
const PATIENCE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(5);
/// Waiting for longer is logged: another daemon may be running and not about to end.
const QUIET: Duration = Duration::from_millis(500);

/// Holds the lock until it and all that share it are dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of a daemon with these directories: in `state`, or in `runtime` if no file
    /// can be created there, so that a full or read-only disk does not prevent a start.
    pub fn take(state: &Path, runtime: &Path) -> anyhow::Result<Self> {
        Self::take_within(PATIENCE, state, runtime)
    }

    fn take_within(patience: Duration, state: &Path, runtime: &Path) -> anyhow::Result<Self> {
        let beside = |directory: &Path| directory.join("ratelimitd.lock");
        let mut path = beside(state);
        let file = open(&path).or_else(|_| {
            path = beside(runtime);
            open(&path)
        });
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        let begun = clock::monotonic();
        let (deadline, mut is_told) = (begun + patience, false);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::WouldBlock) if !is_told && clock::monotonic() > begun + QUIET => {
                    info!(
                        file = %path.display(),
                        "waiting for another ratelimitd, or its loader, to exit"
                    );
                    is_told = true;
                }
                Err(TryLockError::WouldBlock) if clock::monotonic() < deadline => {
                    thread::sleep(POLL);
                }
                Err(TryLockError::WouldBlock) => {
                    bail!(
                        "another ratelimitd is running: it has locked {}",
                        path.display()
                    )
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("locking {}", path.display()));
                }
            }
        }
    }

    /// Returns a descriptor for the loader. The lock is held until that is closed too.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
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
    fn the_second_daemon_is_warned_about_the_first() {
        let [state, runtime] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let missing = state.path().join("missing");
        for state in [state.path(), &missing] {
            let take = || Lock::take_within(Duration::ZERO, state, runtime.path());
            let first = take().unwrap();
            let error = take().unwrap_err().to_string();
            assert!(error.contains("another ratelimitd is running"), "{error}");
            let shared = first.share().unwrap();
            drop(first);
            take().unwrap_err();
            drop(shared);
            take().unwrap();
        }
    }
}
