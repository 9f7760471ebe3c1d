//! Ctrl-C during the demo: it becomes an error, so that everything made is removed on the way out.

use std::{
    error::Error,
    fmt, io, mem, ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result};

/// The exit code that a shell shows for a program that Ctrl-C ended.
pub const EXIT_CODE: u8 = 130;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The user stopped the demo.
#[derive(Debug)]
pub struct Interrupted;

impl Error for Interrupted {}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("interrupted")
    }
}

/// Starts to record signals that ask this process to end.
pub fn listen() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        note(signal).context("preparing for Ctrl-C")?;
    }
    Ok(())
}

/// Whether a signal came.
pub fn came() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails when a signal came.
pub fn check() -> Result<()> {
    if came() {
        return Err(Interrupted.into());
    }
    Ok(())
}

fn note(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: zeros are no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler only writes an atomic, which a signal handler may do.
    if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn on_signal(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}
