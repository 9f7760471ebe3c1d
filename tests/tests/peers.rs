//! Permissions to command the daemon, by the process at the other end of the control socket.

use std::{io, os::unix::net::UnixStream as Std, thread};

use ratelimit_daemon::http::Peer;
use ratelimit_tests::require_root;
use tokio::{net::UnixStream, runtime};

const STRANGER: u32 = 54_321;

#[test]
fn a_member_of_the_group_may_command_whichever_of_its_groups_that_is() {
    require_root!();
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::getegid() };
    let many: Vec<u32> = (60_000..60_100).chain([own]).collect();
    check(STRANGER, &[], false);
    check(STRANGER, &[STRANGER], false);
    check(own, &[], true);
    check(STRANGER, &[own], true);
    check(STRANGER, &[60_000, own], true);
    check(STRANGER, &many, true);
    check(STRANGER, &many[..100], false);
}

/// Connects as a stranger in these groups.
fn check(gid: u32, groups: &[u32], is_permitted: bool) {
    let own = groups.to_vec();
    let connect = move || {
        become_stranger(gid, &own);
        Std::pair().unwrap()
    };
    let (stream, _other) = thread::spawn(connect).join().unwrap();
    stream.set_nonblocking(true).unwrap();
    let runtime = runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.unwrap();
    let _entered = runtime.enter();
    let peer = Peer::of(&UnixStream::from_std(stream).unwrap());
    assert_eq!(peer.is_permitted(), is_permitted, "{gid} {groups:?}");
    assert_eq!(peer.author(), format!("uid {STRANGER}"));
}

/// Takes another identity on, in this thread alone: the functions of libc would change it in all of
/// them.
fn become_stranger(gid: u32, groups: &[u32]) {
    // SAFETY: the first call reads as many numbers as its length says; the others take no pointers.
    let answers = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
            libc::syscall(libc::SYS_setresgid, gid, gid, gid),
            libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER),
        ]
    };
    assert_eq!(answers, [0; 3], "{}", io::Error::last_os_error());
}
