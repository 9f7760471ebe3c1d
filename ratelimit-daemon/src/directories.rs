//! The directories that the daemon writes to, made for its user while the process is still root.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use anyhow::{Context, bail};
use ratelimit_core::config::Paths;
use tracing::{info, warn};

use crate::{control, private, user::User};

/// Files in a directory of state or of a socket that a daemon has used before.
const USED: [&str; 3] = ["state.db", "control.sock", "ratelimitd.lock"];
/// Others may enter the directory of the socket: the mode of the socket decides who may send
/// commands.
const RUNTIME: u32 = 0o755;
/// Bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Makes missing directories. Those of an earlier daemon that ran as root are given to `user`.
pub fn prepare(paths: &Paths, user: &User) -> anyhow::Result<()> {
    if !paths.state.is_dir()
        && let Err(error) =
            private::make_directory(&paths.state).and_then(|()| user.own(&paths.state))
    {
        if !is_of_the_disk(&error) {
            return Err(error)
                .with_context(|| format!("creating the directory {}", paths.state.display()));
        }
        // A fallback is chosen when the database is opened.
        let directory = paths.state.display();
        warn!(%directory, %error, "cannot create the state directory");
    }
    if !paths.runtime.is_dir() {
        fs::create_dir_all(&paths.runtime)
            .and_then(|()| fs::set_permissions(&paths.runtime, fs::Permissions::from_mode(RUNTIME)))
            .and_then(|()| user.own(&paths.runtime))
            .with_context(|| format!("creating the directory {}", paths.runtime.display()))?;
    }
    for directory in [&paths.state, &paths.runtime] {
        if directory.is_dir()
            && !user.may_write(directory)?
            && let Err(error) = adopt(directory, user)
        {
            let failed = error.downcast_ref::<io::Error>();
            if *directory != paths.state || !failed.is_some_and(is_of_the_disk) {
                return Err(error);
            }
        }
    }
    // On a read-only disk, files of root cannot be given to the user.
    if paths.state.is_dir() && !user.may_read(&paths.state)? {
        give_to_user(paths, user)?;
    }
    Ok(())
}

/// Copies root's state for `user`, to the fallback of a directory that is not writable. Root reads
/// and the user writes: a file in a directory of the user may be a link to anything.
fn give_to_user(paths: &Paths, user: &User) -> anyhow::Result<()> {
    let originals = control::Originals::open(&paths.state, &paths.runtime)?;
    user.act(|| originals.copy())??;
    let state = paths.state.display();
    warn!(
        "{state} belongs to root on a read-only disk: using a copy until ratelimitd is restarted \
         with a writable disk"
    );
    Ok(())
}

/// Whether the disk is full or read-only, which other permissions would not change.
fn is_of_the_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

/// Gives a directory and its files to `user`, if it belongs to root and is either empty or was used
/// by a daemon.
fn adopt(directory: &Path, user: &User) -> anyhow::Result<()> {
    let reading = || format!("reading the directory {}", directory.display());
    let known = fs::symlink_metadata(directory).with_context(reading)?;
    let entries = fs::read_dir(directory).with_context(reading)?;
    let entries: Vec<_> = entries.collect::<Result<_, _>>().with_context(reading)?;
    let is_used = entries
        .iter()
        .any(|entry| USED.iter().any(|used| entry.file_name() == *used));
    let is_ours = known.is_dir()
        && known.uid() == 0
        && known.mode() & OTHERS_WRITE == 0
        && (is_used || entries.is_empty());
    if !is_ours {
        bail!(
            "{name} cannot write to {path}: `chown {name} {path}`, or choose the user with --user",
            name = user.name(),
            path = directory.display()
        );
    }
    for entry in entries {
        let path = entry.path();
        let known = entry.metadata().with_context(reading)?;
        if known.is_file() && known.nlink() == 1 && known.uid() == 0 {
            user.own(&path)
                .with_context(|| format!("giving {} to {}", path.display(), user.name()))?;
        }
    }
    user.own(directory)
        .with_context(|| format!("giving {} to {}", directory.display(), user.name()))?;
    info!(
        directory = %directory.display(), user = user.name(),
        "changed owner of the state directory from root to the daemon's user"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn directories_are_made_for_the_user_and_those_of_another_daemon_are_given_to_it() {
        let Some((user, directory)) = nobody() else {
            return;
        };
        let paths = paths(directory.path());
        prepare(&paths, &user).unwrap();
        assert_eq!((mode(&paths.state), mode(&paths.runtime)), (0o700, 0o755));
        assert!(user.may_write(&paths.state).unwrap());
        fs::write(paths.state.join("state.db"), "rows").unwrap();
        std::os::unix::fs::chown(&paths.state, Some(0), Some(0)).unwrap();
        assert!(!user.may_write(&paths.state).unwrap());
        prepare(&paths, &user).unwrap();
        let database = fs::metadata(paths.state.join("state.db")).unwrap();
        assert_eq!(
            database.uid(),
            fs::metadata(&paths.state).unwrap().uid(),
            "both are the user's"
        );
        assert_ne!(database.uid(), 0);
    }

    #[test]
    fn a_directory_that_is_used_for_something_else_is_left_alone() {
        let Some((user, directory)) = nobody() else {
            return;
        };
        let paths = paths(directory.path());
        fs::create_dir(&paths.state).unwrap();
        fs::write(paths.state.join("passwd"), "root").unwrap();
        let error = prepare(&paths, &user).unwrap_err().to_string();
        assert!(error.contains("`chown nobody "), "{error}");
        assert_eq!(fs::metadata(&paths.state).unwrap().uid(), 0);
    }

    #[test]
    fn a_copy_of_the_state_gives_nothing_of_root_to_the_user() {
        let Some((user, directory)) = nobody() else {
            return;
        };
        let paths = paths(directory.path());
        fs::create_dir(&paths.state).unwrap();
        fs::write(paths.state.join("state.db"), "rows").unwrap();
        fs::create_dir(&paths.runtime).unwrap();
        user.own(&paths.runtime).unwrap();
        let of_root = directory.path().join("of-root");
        fs::write(&of_root, "secret").unwrap();
        // The user says that its copy is newer, and has put links there.
        let copy = paths.runtime.join("state");
        for is_newer in [true, false] {
            let _ = fs::remove_dir_all(&copy);
            fs::create_dir(&copy).unwrap();
            user.own(&copy).unwrap();
            let changes = if is_newer { &copy } else { &paths.state };
            let number = 9_u64.to_le_bytes();
            let sum = crc32fast::hash(&number).to_le_bytes();
            let witness = [&number[..], &sum].concat();
            fs::write(changes.join("state.changes"), witness).unwrap();
            std::os::unix::fs::symlink(&of_root, copy.join("state.db")).unwrap();
            give_to_user(&paths, &user).unwrap();
            assert_eq!(fs::metadata(&of_root).unwrap().uid(), 0, "{is_newer}");
            assert_eq!(fs::read(&of_root).unwrap(), b"secret");
            if !is_newer {
                let copied = copy.join("state.db");
                assert_eq!(fs::read(&copied).unwrap(), b"rows");
                assert_ne!(fs::symlink_metadata(&copied).unwrap().uid(), 0);
            }
            let _ = fs::remove_file(paths.state.join("state.changes"));
        }
    }

    /// Returns another user and a world-readable directory of root; `None` if the tests do not run
    /// as root.
    fn nobody() -> Option<(User, tempfile::TempDir)> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: needs root");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Some((User::find(Some("nobody")).unwrap(), directory))
    }

    fn paths(directory: &Path) -> Paths {
        Paths {
            pins: PathBuf::new(),
            state: directory.join("state"),
            runtime: directory.join("run"),
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }
}
