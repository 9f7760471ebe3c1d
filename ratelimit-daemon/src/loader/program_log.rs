//! What the program logs through aya-log, in a debug build: the loader reads its ring while it waits for requests, and tells it in the log
//! of the daemon. An object that is released has no such ring.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::Log;

/// The log of a program, which has to be there before that is loaded.
pub struct ProgramLog(Option<EbpfLogger<&'static dyn Log>>);

impl ProgramLog {
    /// That of a program which is about to be loaded.
    pub fn of(ebpf: &mut Ebpf) -> Self {
        Self(EbpfLogger::init(ebpf).ok())
    }

    /// Tells what is in it.
    pub fn report(&mut self) {
        if let Some(log) = &mut self.0 {
            log.flush();
        }
    }

    /// What is readable when there is something in it; `None` where the program logs nothing.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }
}

/// Waits until one of these is readable, and answers whether the first is.
pub fn wait<'f>(
    first: BorrowedFd<'f>,
    others: impl Iterator<Item = BorrowedFd<'f>>,
) -> io::Result<bool> {
    let poll = |descriptor: RawFd| libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    let all = std::iter::once(first).chain(others);
    let mut all: Vec<libc::pollfd> = all.map(|it| poll(it.as_raw_fd())).collect();
    let count = libc::nfds_t::try_from(all.len()).unwrap_or_default();
    // SAFETY: there are as many as is said.
    if unsafe { libc::poll(all.as_mut_ptr(), count, -1) } < 0 {
        let error = io::Error::last_os_error();
        let is_interrupted = error.kind() == io::ErrorKind::Interrupted;
        return if is_interrupted {
            Ok(false)
        } else {
            Err(error)
        };
    }
    Ok(all[0].revents != 0)
}
