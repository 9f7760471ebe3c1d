//! The process at the other end of the control socket, as the kernel vouches for it.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::Arc,
};

use ratelimit_core::author;
use rustix::process::{getegid, geteuid};
use tokio::net::{UnixStream, unix::UCred};
use tracing::warn;

use super::names::Names;

/// The initial size of the list of groups; few users are in more.
const GROUPS_USUAL: usize = 32;

/// The client process (`SO_PEERCRED`, `SO_PEERGROUPS`).
#[derive(Clone, Debug)]
pub struct Peer {
    is_permitted: bool,
    uid: Option<u32>,
    pub(super) author: Arc<str>,
}

impl Peer {
    /// The peer of a connection.
    pub fn of(stream: &UnixStream) -> Self {
        let credentials = stream.peer_cred().ok();
        Self {
            is_permitted: credentials
                .as_ref()
                .is_some_and(|peer| may_command(peer, stream.as_fd())),
            uid: credentials.as_ref().map(UCred::uid),
            author: number(credentials.as_ref().map(UCred::uid)).into(),
        }
    }

    /// A client with the token of the dashboard, whose user is unknown.
    pub fn with_token() -> Self {
        Self {
            is_permitted: true,
            uid: None,
            author: "dashboard".into(),
        }
    }

    /// Returns the peer with its user name as author.
    pub async fn named(&self, names: &Names) -> Self {
        let Some(uid) = self.uid else {
            return self.clone();
        };
        Self {
            author: names.of(uid).await,
            ..self.clone()
        }
    }

    /// The number of its user.
    pub const fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// Whether it may read every file.
    pub fn is_root(&self) -> bool {
        self.uid == Some(0)
    }

    /// Whether it may command the daemon.
    pub const fn is_permitted(&self) -> bool {
        self.is_permitted
    }

    /// Returns the peer with the user on whose behalf it acts.
    pub fn on_behalf_of(&self, claimed: &str) -> Self {
        Self {
            author: author::on_behalf_of(&self.author, claimed).into(),
            ..self.clone()
        }
    }

    /// The name of the user, or its number.
    pub fn author(&self) -> &str {
        &self.author
    }
}

/// Root, the user of the daemon and members of its group may command it. The mode of the socket
/// says the same; this check also holds if the mode was changed.
fn may_command(peer: &UCred, socket: BorrowedFd<'_>) -> bool {
    let (own_uid, own_gid) = (geteuid().as_raw(), getegid().as_raw());
    if peer.uid() == 0 || peer.uid() == own_uid || peer.gid() == own_gid {
        return true;
    }
    // Groups given by `usermod -aG` are not groups of a running process.
    let groups = groups(socket).unwrap_or_else(|error| {
        warn!(%error, "cannot read the groups of the client");
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
        // SAFETY: the kernel writes at most `length` bytes to the vector, which has as many, and
        // any bytes are numbers.
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
        // The kernel returns the required length.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

/// The author for a user without a name.
fn number(uid: Option<u32>) -> String {
    uid.map_or_else(|| "unknown".to_owned(), |uid| format!("uid {uid}"))
}
