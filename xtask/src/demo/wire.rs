//! The sending end of the link.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    interrupt,
    lab::{INTERFACE, Lab},
    oracle::Passage,
    packet_socket::PacketSocket,
};

/// A frame is looked at while it is sent, by the CPU that sends it. Only a kernel that is behind with its work leaves it for
/// a moment.
const DELAY_MAX: Duration = Duration::from_millis(5);
/// How long a full link may stay full.
const FULL_MAX: Duration = Duration::from_secs(5);

/// The end that sends.
pub struct Wire {
    socket: PacketSocket,
    start: Instant,
    sent: AtomicU64,
}

impl Wire {
    /// Takes the end that is outside.
    pub fn open(lab: &Lab) -> Result<Self> {
        let socket = lab.outside.inside(|| PacketSocket::sending(INTERFACE))?;
        Ok(Self {
            socket,
            start: Instant::now(),
            sent: AtomicU64::new(0),
        })
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends a frame, and answers when it was on its way.
    pub fn send(&self, frame: &[u8]) -> Result<Passage> {
        interrupt::check()?;
        let earliest = self.start.elapsed();
        while let Err(error) = self.socket.send(frame) {
            // The queue of the link was full, and the frame is not in it.
            let is_full = error.raw_os_error() == Some(libc::ENOBUFS);
            if !is_full && error.kind() != io::ErrorKind::Interrupted {
                return Err(error).with_context(|| format!("sending {} bytes", frame.len()));
            }
            if self.start.elapsed() > earliest + FULL_MAX {
                bail!("the link stays full");
            }
            thread::yield_now();
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(Passage {
            earliest,
            latest: self.start.elapsed() + DELAY_MAX,
            bytes: u64::try_from(frame.len()).context("counting the bytes of a frame")?,
        })
    }
}
