//! The user that the daemon runs as, and acting with the rights of that one.

use std::{ffi::CString, io, os::unix::fs::chown, path::Path};

use anyhow::{Context, ensure};
use rustix::{
    process::{Gid, getegid, geteuid, getgroups},
    thread::set_thread_groups,
};
use tracing::warn;

/// The user of an installation.
pub const OWN: &str = "ratelimit";
/// The fallback user.
const NOBODY: &str = "nobody";

/// A user and its groups.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct User {
    name: String,
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<Gid>,
    /// Whether the process may become it, and the one before again.
    is_another: bool,
}

impl User {
    /// Finds the user `name`, by default `ratelimit` if it exists and `nobody` otherwise. A process
    /// that root did not start keeps its user.
    pub fn find(name: Option<&str>) -> anyhow::Result<Self> {
        if !geteuid().is_root() {
            return Self::current(geteuid().as_raw(), name);
        }
        let found = match name {
            Some(name) => Self::named(name).with_context(|| {
                format!("no user `{name}`: create it with `useradd --system {name}`")
            })?,
            None => Self::named(OWN).or_else(Self::nobody).context(
                "no user to run as: create one with `useradd --system ratelimit`, or choose one \
                 with --user",
            )?,
        };
        if found.uid == 0 {
            warn!("running as root without capabilities; files are read with root's permissions");
        }
        Ok(found)
    }

    fn current(uid: libc::uid_t, name: Option<&str>) -> anyhow::Result<Self> {
        let found = uzers::get_user_by_uid(uid);
        let own = found.map_or_else(
            || uid.to_string(),
            |user| user.name().to_string_lossy().into_owned(),
        );
        if let Some(name) = name {
            ensure!(
                name == own,
                "only root can become `{name}`: this process is {own}"
            );
        }
        Ok(Self {
            name: own,
            uid,
            gid: getegid().as_raw(),
            groups: Vec::new(),
            is_another: false,
        })
    }

    fn named(name: &str) -> Option<Self> {
        let user = uzers::get_user_by_name(name)?;
        let groups = uzers::get_user_groups(name, user.primary_group_id())?;
        Some(Self {
            name: name.to_owned(),
            uid: user.uid(),
            gid: user.primary_group_id(),
            groups: groups.iter().map(|it| Gid::from_raw(it.gid())).collect(),
            is_another: user.uid() != 0,
        })
    }

    fn nobody() -> Option<Self> {
        let nobody = Self::named(NOBODY)?;
        warn!(
            "no user `{OWN}`: running as `{NOBODY}`, which other services may share; create it \
             with `useradd --system {OWN}`"
        );
        Some(nobody)
    }

    /// Returns the name of the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether other services may run as it, so that what belongs to it is not the daemon's alone.
    pub fn is_shared(&self) -> bool {
        self.name == NOBODY
    }

    /// Runs `work` in this thread with the file permissions of this user. The kernel drops the
    /// capabilities that override permissions during that time (`cap_task_fix_setuid`).
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> anyhow::Result<T> {
        if !self.is_another {
            return Ok(work());
        }
        let before = getgroups().context("reading the groups of the process")?;
        // Only for this thread; the function of the C library would change all threads.
        set_thread_groups(&self.groups)
            .map_err(io::Error::from)
            .and_then(|()| set_file_user(self.uid, self.gid))
            .with_context(|| format!("acting as {}", self.name))?;
        let answer = work();
        set_file_user(0, 0)
            .and_then(|()| Ok(set_thread_groups(&before)?))
            .context("acting as root again")?;
        Ok(answer)
    }

    /// Becomes this user, without a way back.
    ///
    /// # Errors
    ///
    /// When the kernel refuses, or there is a way back.
    pub(crate) fn become_for_good(&self) -> anyhow::Result<()> {
        if !self.is_another {
            return Ok(());
        }
        let becoming = || format!("becoming {}", self.name);
        set_thread_groups(&self.groups).with_context(becoming)?;
        // SAFETY: these calls take no pointers.
        unsafe {
            done(libc::setresgid(self.gid, self.gid, self.gid)).with_context(becoming)?;
            done(libc::setresuid(self.uid, self.uid, self.uid)).with_context(becoming)?;
            ensure!(
                libc::setresuid(0, 0, 0) != 0 && libc::setresgid(0, 0, 0) != 0,
                "it is possible to become root again"
            );
        }
        Ok(())
    }

    /// Gives the file at `path` to this user.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        if !self.is_another {
            return Ok(());
        }
        chown(path, Some(self.uid), Some(self.gid))
    }

    /// Returns whether its permissions allow it to create files in a directory. A read-only disk is
    /// not a matter of permissions.
    pub(crate) fn may_write(&self, directory: &Path) -> anyhow::Result<bool> {
        self.may(directory, libc::W_OK | libc::X_OK)
    }

    /// Whether its permissions let it read the files in a directory.
    pub(crate) fn may_read(&self, directory: &Path) -> anyhow::Result<bool> {
        self.may(directory, libc::R_OK | libc::X_OK)
    }

    fn may(&self, directory: &Path, mode: libc::c_int) -> anyhow::Result<bool> {
        let path = CString::new(directory.as_os_str().as_encoded_bytes())?;
        // SAFETY: the path ends with a NUL byte.
        let may = || unsafe {
            libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) == 0
                || io::Error::last_os_error().kind() == io::ErrorKind::ReadOnlyFilesystem
        };
        self.act(may)
    }
}

/// Sets the user for opening files in this thread.
fn set_file_user(uid: libc::uid_t, gid: libc::gid_t) -> io::Result<()> {
    // SAFETY: these calls take no pointers. They return the previous value, and change nothing for
    // an invalid number.
    let is_set = unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        libc::syscall(libc::SYS_setfsgid, libc::gid_t::MAX) == libc::c_long::from(gid)
            && libc::syscall(libc::SYS_setfsuid, libc::uid_t::MAX) == libc::c_long::from(uid)
    };
    if is_set {
        Ok(())
    } else {
        Err(io::Error::from(io::ErrorKind::PermissionDenied))
    }
}

fn done(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn files_only_root_may_read_are_not_read_with_the_rights_of_another() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: needs root");
            return;
        }
        let file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        let read = || fs::read(file.path()).map_err(|error| error.kind());
        let nobody = User::find(Some("nobody")).unwrap();
        assert_eq!(
            nobody.act(read).unwrap(),
            Err(io::ErrorKind::PermissionDenied)
        );
        assert_eq!(read(), Ok(Vec::new()));
    }

    #[test]
    fn a_user_that_does_not_exist_is_refused_with_what_makes_it() {
        let error = User::find(Some("no-such-user")).unwrap_err().to_string();
        assert!(
            error.contains("useradd --system no-such-user") || error.contains("only root"),
            "{error}"
        );
    }
}
