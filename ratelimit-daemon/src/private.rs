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

/// The file at `path` with what stands in it; an empty one where there is none.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(FILE);
    let file = options.open(path)?;
    // It may have been there with another one.
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

/// Makes the directory `path` where there is none. One that is there stays as it is: others may be meant to look into it.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY)
        .create(path)
}

/// Replaces the file at `path` by one that `write` writes. Whoever reads finds the one before or this one, also after a crash.
///
/// # Errors
///
/// When it cannot be written; then the one before stands.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = create(&beside)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_directory_of(path)
}

/// What was done with a file or directory; `None` where there was none.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Removes a file, if it is there, and answers whether it was.
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
