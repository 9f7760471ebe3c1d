//! Logs of the program by aya-log in debug builds: the loader reads their ring while it waits for
//! requests, and writes them to the log of the daemon. A released object has no such ring.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::Log;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

/// The log of a program, which has to be there before that is loaded.
pub struct ProgramLog(Option<EbpfLogger<&'static dyn Log>>);

impl ProgramLog {
    /// Opens the log of a program that is about to be loaded.
    pub fn of(ebpf: &mut Ebpf) -> Self {
        Self(EbpfLogger::init(ebpf).ok())
    }

    /// Tells what is in it.
    pub fn report(&mut self) {
        if let Some(log) = &mut self.0 {
            log.flush();
        }
    }

    /// Returns a descriptor that becomes readable with new logs; `None` if the program has no log.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }
}

/// Waits until one of these is readable, and returns whether the first one is.
pub fn wait<'f>(
    first: BorrowedFd<'f>,
    others: impl Iterator<Item = BorrowedFd<'f>>,
) -> io::Result<bool> {
    let all = std::iter::once(first).chain(others);
    let mut all: Vec<_> = all
        .map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN))
        .collect();
    match poll(&mut all, None) {
        Ok(_) => Ok(!all[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
