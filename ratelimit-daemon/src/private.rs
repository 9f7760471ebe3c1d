//! Files and directories for the user of the daemon alone, whatever its umask is.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use anyhow::Context;

const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;

/// An empty file at `path`.
pub fn create(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    file.set_len(0)?;
    Ok(file)
}

/// Opens the file at `path` and keeps its content; creates an empty one if it is missing.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(FILE);
    let file = options.open(path)?;
    // It may have been there with another one.
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

/// Creates the directory `path` if it is missing. An existing one keeps its permissions, which may
/// be intended.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY)
        .create(path)
}

/// Replaces the file at `path` atomically by one that `write` writes, also if the machine crashes.
///
/// # Errors
///
/// If it cannot be written; the existing file is unchanged.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = create(&beside)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_directory_of(path)
}

/// Turns a missing file or directory into `None`.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Removes a file, if it exists, and returns whether it did.
pub fn remove(path: &Path) -> anyhow::Result<bool> {
    let removed = if_there(fs::remove_file(path));
    let removed = removed.with_context(|| format!("removing {}", path.display()))?;
    Ok(removed.is_some())
}

/// Brings to the disk which files there are beside `path`.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_for_one_user_and_a_directory_that_is_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (file, made) = (directory.path().join("file"), directory.path().join("made"));
        fs::write(&file, "secret").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        open(&file).unwrap();
        assert_eq!(
            (mode(&file), fs::read(&file).unwrap()),
            (0o600, b"secret".to_vec())
        );
        create(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"");
        make_directory(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        fs::set_permissions(&made, Permissions::from_mode(0o750)).unwrap();
        make_directory(&made).unwrap();
        assert_eq!(mode(&made), 0o750);
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }
}
