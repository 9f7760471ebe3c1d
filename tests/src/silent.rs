//! A directory whose file system never answers, as one of a server that is gone: whoever looks into
//! it waits.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// A FUSE file system that never answers requests. When it is dropped, all waiting requests fail.
pub struct Silent {
    path: PathBuf,
    connection: Option<File>,
}

impl Silent {
    /// Puts it on `path`, a directory.
    pub fn mounted(path: &Path) -> Result<Self> {
        let connection = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let connection = connection.context("opening /dev/fuse")?;
        let options = format!(
            "fd={},rootmode=40755,user_id=0,group_id=0,allow_other",
            connection.as_raw_fd()
        );
        let [source, target, kind, options] = [
            c"silent".to_owned(),
            CString::new(path.as_os_str().as_bytes())?,
            c"fuse".to_owned(),
            CString::new(options)?,
        ];
        // SAFETY: all texts end with a NUL byte.
        let answer = unsafe {
            libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                libc::MS_NODEV | libc::MS_NOSUID,
                options.as_ptr().cast(),
            )
        };
        if answer != 0 {
            return Err(io::Error::last_os_error()).context("mounting a file system of FUSE");
        }
        Ok(Self {
            path: path.to_owned(),
            connection: Some(connection),
        })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // Waiting requests fail.
        self.connection.take();
        if let Ok(path) = CString::new(self.path.as_os_str().as_bytes()) {
            // SAFETY: the path ends with a NUL byte.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
    }
}
