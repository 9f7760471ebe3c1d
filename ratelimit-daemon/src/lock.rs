//! One daemon at a time: a lock on a file of the runtime directory, which the kernel lets go when the process ends.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::PermissionsExt,
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
        make_directory(directory)
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

/// Everybody may look into it, whatever the umask is: who may send commands is told by the mode of the socket in it.
fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_made_can_be_looked_into_and_one_that_is_there_stays() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("ratelimit");
        drop(Lock::take(&directory).unwrap());
        assert_eq!(mode(&directory), 0o755);
        let narrow = fs::Permissions::from_mode(0o750);
        fs::set_permissions(&directory, narrow).unwrap();
        drop(Lock::take(&directory).unwrap());
        assert_eq!(mode(&directory), 0o750);
    }

    #[test]
    fn the_second_daemon_is_told_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let first = Lock::take(directory.path()).unwrap();
        let error = Lock::take(directory.path()).unwrap_err().to_string();
        assert!(error.contains("another ratelimitd is running"), "{error}");
        drop(first);
        Lock::take(directory.path()).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }
}
