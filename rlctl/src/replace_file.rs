//! A configuration file, replaced as a whole.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

/// Replaces a file in one step, with the same owner and mode. The one before is beside it.
pub fn replace(main: &Path, text: &str) -> io::Result<PathBuf> {
    let [new, before] = [".new", ".before"].map(|suffix| {
        let mut path = OsString::from(main);
        path.push(suffix);
        PathBuf::from(path)
    });
    let written = write(main, &new, text).and_then(|()| {
        fs::copy(main, &before)?;
        fs::rename(&new, main)
    });
    if written.is_err() {
        // The only likely error is that it does not exist.
        let _ = fs::remove_file(&new);
    }
    written.map(|()| before)
}

fn write(main: &Path, new: &Path, text: &str) -> io::Result<()> {
    let held = fs::metadata(main)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(new)?;
    file.set_permissions(fs::Permissions::from_mode(held.mode() & 0o7777))?;
    chown(new, Some(held.uid()), Some(held.gid()))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_the_one_before_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("config.toml");
        fs::write(&main, "old").unwrap();
        fs::set_permissions(&main, fs::Permissions::from_mode(0o640)).unwrap();
        let before = replace(&main, "new").unwrap();
        assert_eq!(before, directory.path().join("config.toml.before"));
        let text = |path| fs::read_to_string(path).unwrap();
        assert_eq!((text(&main), text(&before)), ("new".into(), "old".into()));
        assert_eq!(fs::metadata(&main).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("config.toml");
        fs::write(&main, "old").unwrap();
        // A copy cannot take the place of a directory.
        fs::create_dir(directory.path().join("config.toml.before")).unwrap();
        replace(&main, "new").unwrap_err();
        assert_eq!(fs::read_to_string(&main).unwrap(), "old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
