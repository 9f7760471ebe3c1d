//! The process at the other end of the control socket, as the kernel vouches for it.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::Arc,
};

use tokio::net::{UnixStream, unix::UCred};
use tracing::warn;

/// Groups that are asked for at first; few users are in more.
const GROUPS_USUAL: usize = 32;

/// Who asks (`SO_PEERCRED`, `SO_PEERGROUPS`).
#[derive(Clone, Debug)]
pub struct Peer {
    pub(super) is_permitted: bool,
    /// The name of the user.
    pub(super) author: Arc<str>,
}

impl Peer {
    /// The peer of a connection.
    #[must_use]
    pub fn of(stream: &UnixStream) -> Self {
        let credentials = stream.peer_cred().ok();
        Self {
            is_permitted: credentials
                .as_ref()
                .is_some_and(|peer| may_command(peer, stream.as_fd())),
            author: name(credentials.as_ref().map(UCred::uid)).into(),
        }
    }
}

/// Root, the user of the daemon and the members of its group may command it. The socket's mode says the same; this holds also
/// when somebody changed that.
fn may_command(peer: &UCred, socket: BorrowedFd<'_>) -> bool {
    // SAFETY: these calls cannot fail.
    let (own_uid, own_gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    if peer.uid() == 0 || peer.uid() == own_uid || peer.gid() == own_gid {
        return true;
    }
    // What `usermod -aG` gives is no group of a process's own.
    let groups = groups(socket).unwrap_or_else(|error| {
        warn!(%error, "the groups of who asks could not be read");
        Vec::new()
    });
    groups.contains(&own_gid)
}

/// The supplementary groups of the peer, as they were when it connected.
fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<libc::gid_t>> {
    let mut groups = vec![0; GROUPS_USUAL];
    loop {
        let room = size_of_val(groups.as_slice());
        let mut length = libc::socklen_t::try_from(room).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `length` bytes to the vector, which has as many, and any bytes are numbers.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let error = io::Error::last_os_error();
        let count = usize::try_from(length).map_err(io::Error::other)? / size_of::<libc::gid_t>();
        if answer == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        // The kernel says how many there are.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

fn name(uid: Option<u32>) -> String {
    let Some(uid) = uid else {
        return "unknown".to_owned();
    };
    let user = uzers::get_user_by_uid(uid);
    user.map_or_else(
        || format!("uid {uid}"),
        |user| user.name().to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const STRANGER: u32 = 54_321;

    #[test]
    fn a_member_of_the_group_may_command_whichever_of_its_groups_that_is() {
        // SAFETY: these calls cannot fail.
        let (own_uid, own_gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        if own_uid != 0 {
            println!("SKIPPED: only root can become somebody else");
            return;
        }
        let many: Vec<u32> = (60_000..60_100).chain([own_gid]).collect();
        check(STRANGER, &[], false);
        check(STRANGER, &[STRANGER], false);
        check(own_gid, &[], true);
        check(STRANGER, &[own_gid], true);
        check(STRANGER, &[60_000, own_gid], true);
        check(STRANGER, &many, true);
        check(STRANGER, &many[..100], false);
    }

    /// Connects as a stranger in these groups.
    fn check(gid: u32, groups: &[u32], is_permitted: bool) {
        let own: Vec<u32> = groups.to_vec();
        let connect = move || {
            become_stranger(gid, &own);
            std::os::unix::net::UnixStream::pair().unwrap()
        };
        let (stream, _other) = thread::spawn(connect).join().unwrap();
        stream.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let peer = Peer::of(&UnixStream::from_std(stream).unwrap());
        assert_eq!(peer.is_permitted, is_permitted, "{gid} {groups:?}");
        assert_eq!(&*peer.author, format!("uid {STRANGER}"));
    }

    /// Takes another identity on, in this thread alone: the functions of libc would change it in all of them.
    fn become_stranger(gid: u32, groups: &[u32]) {
        // SAFETY: the first call reads as many numbers as it is told; the others take no pointers.
        let answers = unsafe {
            [
                libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
                libc::syscall(libc::SYS_setresgid, gid, gid, gid),
                libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER),
            ]
        };
        assert_eq!(answers, [0; 3], "{}", io::Error::last_os_error());
    }
}
