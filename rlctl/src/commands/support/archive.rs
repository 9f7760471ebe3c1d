//! The file: new, for its owner alone, a gzipped tar.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use jiff::Zoned;

use crate::failure::Failure;

/// The directory that the archive unpacks to.
const DIRECTORY: &str = "ratelimit-support";
/// Readable by the owner only.
const MODE: u32 = 0o600;

/// Makes the file, which must not be there.
pub fn create(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).mode(MODE).open(path);
    let path = path.display();
    created.map_err(|error| {
        let why = if error.kind() == ErrorKind::AlreadyExists {
            format!("{path} already exists")
        } else {
            format!("cannot create {path}: {error}")
        };
        Failure::refused(why).hint("name another file: rlctl doctor --archive FILE")
    })
}

pub fn write(file: File, parts: &[(&str, String)], now: &Zoned) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for (name, text) in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(MODE);
        header.set_mtime(u64::try_from(now.timestamp().as_second()).unwrap_or_default());
        let path = Path::new(DIRECTORY).join(name);
        archive.append_data(&mut header, path, text.as_bytes())?;
    }
    let mut file = archive.into_inner()?.finish()?;
    file.flush()?;
    file.sync_all()
}
