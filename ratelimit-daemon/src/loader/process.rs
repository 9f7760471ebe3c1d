//! The process of the loader: made before anything is read from outside, and gone with the daemon.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    process,
};

use anyhow::{Context, anyhow, ensure};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, pidfd_open,
    set_parent_process_death_signal, waitpid,
};
use tokio::io::{Interest, unix::AsyncFd};
use tracing::error;

use super::{Local, Remote, serve::serve, socket::Socket};
use crate::privileges;

/// Process name.
const NAME: &std::ffi::CStr = c"ratelimitd-load";
/// The signals that end the daemon reach the loader too, where they are sent to a group: it ends
/// after the daemon.
const IGNORED: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The process, as its parent knows it.
#[derive(Debug)]
pub struct Process {
    id: Pid,
    /// Readable once it has ended.
    end: OwnedFd,
}

/// Starts the loader. It has to come while there is one thread: it is a fork.
pub fn start() -> anyhow::Result<(Remote, Process)> {
    privileges::require()?;
    let (own, theirs) = Socket::pair().context("making the socket of the loader")?;
    let daemon = getpid();
    // SAFETY: this process has one thread, so the child may do whatever it could.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("starting the loader"),
        0 => {
            drop(own);
            process::exit(run(&theirs, daemon));
        }
        id => {
            drop(theirs);
            let process = Process::of(id)?;
            Ok((Remote::new(own, Some(process.id))?, process))
        }
    }
}

/// The life of the loader, and the code that it ends with.
fn run(socket: &Socket, daemon: Pid) -> i32 {
    let lived = confine(socket, daemon).and_then(|()| serve(socket, &mut Local::default()));
    match lived {
        Ok(()) => 0,
        Err(error) => {
            error!(error = format!("{error:#}"), "the loader ends");
            1
        }
    }
}

/// Restricts the process to loading, and makes it end with the daemon, so that requests of a killed
/// daemon do not interfere with the next one.
fn confine(socket: &Socket, daemon: Pid) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("following the daemon")?;
    // It may have died before that.
    ensure!(getppid() == Some(daemon), "the daemon has exited");
    let kept = socket.as_raw_fd().unsigned_abs();
    // SAFETY: the only pointer is to a name that ends with a NUL byte; closed descriptors have no
    // owner in this process, which exits without unwinding.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        for signal in IGNORED {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::umask(0o077);
        libc::syscall(libc::SYS_close_range, 3, kept.saturating_sub(1), 0);
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
    }
    std::env::set_current_dir("/").context("leaving the working directory")?;
    privileges::keep_for_loading()
}

impl Process {
    fn of(id: libc::pid_t) -> anyhow::Result<Self> {
        let id = Pid::from_raw(id).context("the loader has no number")?;
        let end = pidfd_open(id, PidfdFlags::empty()).context("watching the loader")?;
        Ok(Self { id, end })
    }

    /// The ID of the process.
    pub fn id(&self) -> libc::pid_t {
        self.id.as_raw_pid()
    }

    /// Waits for its end, which is an error: programs stay attached, but no further ones can be
    /// attached.
    pub async fn watch(self) -> anyhow::Result<()> {
        let Self { id, end } = self;
        // SAFETY: it owns its descriptor, and keeps it open and the same as long as it lives.
        let end = unsafe { AsyncFd::register_with_interest(end, Interest::READABLE) }
            .map_err(io::Error::from)
            .context("watching the loader")?;
        drop(end.readable().await.context("watching the loader")?);
        let found = waitpid(Some(id), WaitOptions::NOHANG).ok().flatten();
        let signal = found.and_then(|(_, status)| status.terminating_signal());
        let code = found.and_then(|(_, status)| status.exit_status());
        let how = match (signal, code) {
            (Some(signal), _) => format!("by signal {signal}"),
            (None, Some(code)) => format!("with code {code}"),
            (None, None) => "for an unknown reason".to_owned(),
        };
        Err(anyhow!(
            "the loader exited ({how}), and without it no interface can be attached: restart \
             ratelimitd, which takes over without a gap"
        ))
    }
}
