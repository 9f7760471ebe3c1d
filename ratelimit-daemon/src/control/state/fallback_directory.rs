//! If the state directory cannot be written, the daemon starts with a copy in the runtime
//! directory, and copies it back as soon as possible.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use tracing::{error, info};

use super::State;
use crate::{
    clock,
    control::{persistence::store::Store, reports::troubles::STATE},
    private,
};

/// The interval of retries.
const AGAIN: Duration = Duration::from_secs(5);
/// The free space required to open the database.
const ROOM: usize = 512 * 1024;

/// The directory used as a fallback.
#[derive(Clone, Debug)]
pub struct FallbackDirectory {
    /// The directory it replaces.
    state: PathBuf,
    error: String,
    tried: Instant,
}

/// Opens the database in `state`, or a copy of it below `runtime`.
pub fn open(state: &Path, runtime: &Path) -> anyhow::Result<(Store, Option<FallbackDirectory>)> {
    let stand_in = runtime.join("state");
    let error = match require_writable(state) {
        Ok(()) if Store::is_newer(&stand_in, state) => {
            let mut store = Store::open(&stand_in)?;
            match store.move_to(state) {
                Ok(()) => {
                    info!(
                        "changes from while the state directory was not writable are in the \
                         fallback directory"
                    );
                    let _ = fs::remove_dir_all(stand_in);
                    return Ok((store, None));
                }
                Err(error) => format!("{error:#}"),
            }
        }
        Ok(()) => return Ok((Store::open(state)?, None)),
        Err(error) => format!("{}: {error}", state.display()),
    };
    error!(
        error,
        "the state directory is not writable: starting with a copy"
    );
    let copy = Originals::open(state, runtime)?.copy()?;
    let fallback = FallbackDirectory {
        state: state.to_owned(),
        error,
        tried: clock::monotonic(),
    };
    Ok((Store::open(&copy)?, Some(fallback)))
}

/// The files of a database, opened by a user who may read them, to be copied by one who may write
/// to the runtime directory.
pub struct Originals {
    /// The directory of the copy.
    copy: PathBuf,
    /// `None` if the copy is newer.
    files: Option<Vec<(&'static str, File)>>,
}

impl Originals {
    /// Opens the files of the database in `state`, which may be copied below `runtime`.
    pub fn open(state: &Path, runtime: &Path) -> anyhow::Result<Self> {
        let copy = runtime.join("state");
        // A previous daemon may have changed the copy. The database may also be gone, or only root
        // may read it and has copied it.
        let is_older = state.join("state.db").exists() && !Store::is_newer(&copy, state);
        let open = |name| {
            let path = state.join(name);
            let file = private::if_there(File::open(&path));
            let file = file.with_context(|| format!("opening {}", path.display()));
            file.map(|file| Some((name, file?))).transpose()
        };
        let names = ["state.db", "state.db-wal", "state.changes"].into_iter();
        let files = is_older.then(|| names.filter_map(open).collect());
        Ok(Self {
            copy,
            files: files.transpose()?,
        })
    }

    /// Creates the copy, unless it is newer, and returns its directory.
    pub fn copy(self) -> anyhow::Result<PathBuf> {
        let Self { copy, files } = self;
        if files.is_some() {
            let _ = fs::remove_dir_all(&copy);
        }
        private::make_directory(&copy)
            .with_context(|| format!("creating the directory {}", copy.display()))?;
        for (name, mut original) in files.into_iter().flatten() {
            let to = copy.join(name);
            private::create(&to)
                .and_then(|mut file| io::copy(&mut original, &mut file))
                .with_context(|| format!("copying to {}", to.display()))?;
        }
        Ok(copy)
    }
}

/// Checks that the database can be written to a directory, which is created if necessary.
fn require_writable(directory: &Path) -> io::Result<()> {
    private::make_directory(directory)?;
    let probe = directory.join("probe");
    let write = || -> io::Result<()> {
        let mut file = private::create(&probe)?;
        file.write_all(&vec![1; ROOM])?;
        file.sync_all()
    };
    let written = write();
    match fs::remove_file(&probe) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && written.is_ok() => Err(error),
        _ => written,
    }
}

impl FallbackDirectory {
    /// Reports that the fallback is in use, until the directory can be written.
    pub fn note(fallback: Option<&Self>, state: &mut State) {
        let trouble = fallback.map(Self::trouble);
        state.report(STATE, trouble);
    }

    /// Moves the state back to its directory, if possible.
    pub fn tick(fallback: &mut Option<Self>, state: &mut State) {
        let Some(own) = fallback else {
            return;
        };
        if clock::elapsed(own.tried) < AGAIN {
            return;
        }
        own.tried = clock::monotonic();
        if require_writable(&own.state).is_err() {
            return;
        }
        match state.kept.store.move_to(&own.state) {
            Ok(()) => *fallback = None,
            Err(error) => own.error = format!("{error:#}"),
        }
        Self::note(fallback.as_ref(), state);
    }

    /// Describes why the fallback is in use, and the consequences.
    fn trouble(&self) -> String {
        format!(
            "{}: changes will be lost on reboot; retrying every few seconds",
            self.error
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_directory_holds_that_cannot_be_written_is_worked_on_elsewhere_and_brought_back() {
        let directory = tempfile::tempdir().unwrap();
        let (state, runtime) = (directory.path().join("state"), directory.path().join("run"));
        let (store, fallback) = open(&state, &runtime).unwrap();
        assert!(fallback.is_none());
        drop(store);
        // A directory at the path of the probe simulates a disk that cannot be written, even for
        // root.
        fs::create_dir(state.join("probe")).unwrap();
        let (mut store, fallback) = open(&state, &runtime).unwrap();
        assert!(fallback.unwrap().trouble().contains("state"));
        assert!(runtime.join("state/state.db").exists());
        fs::remove_dir(state.join("probe")).unwrap();
        require_writable(&state).unwrap();
        store.move_to(&state).unwrap();
        store.transaction(|_| Ok(())).unwrap();
        drop(store);
        let (_, fallback) = open(&state, &runtime).unwrap();
        assert!(fallback.is_none());
    }

    #[test]
    fn what_was_set_in_the_copy_is_there_at_the_next_starts() {
        let directory = tempfile::tempdir().unwrap();
        let (state, runtime) = (directory.path().join("state"), directory.path().join("run"));
        let changes = Store::changes;
        fs::create_dir_all(state.join("probe")).unwrap();
        let mut before = 0;
        for _ in 0..2 {
            let (mut store, fallback) = open(&state, &runtime).unwrap();
            // At start, this happens after the state of the kernel was adopted.
            store.end_adoption().unwrap();
            assert!(fallback.is_some() && changes(&store) > before);
            store.transaction(|_| Ok(())).unwrap();
            before = changes(&store);
        }
        fs::remove_dir(state.join("probe")).unwrap();
        for _ in 0..2 {
            let (store, fallback) = open(&state, &runtime).unwrap();
            assert!(fallback.is_none() && changes(&store) > before);
            assert!(!runtime.join("state").exists());
            before = changes(&store);
        }
    }
}
