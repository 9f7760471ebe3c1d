//! The sending end of the link.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_tests::{Lab, exactness::bracketed::Bracket, lab::Sender};

use super::interrupt;

/// A frame is looked at while it is sent, by the CPU that sends it. Only a kernel that is behind with its work leaves it for
/// a moment.
const DELAY_MAX: Duration = Duration::from_millis(5);

/// The end that sends.
pub struct Wire {
    sender: Sender,
    start: Instant,
    sent: AtomicU64,
}

impl Wire {
    /// Takes the end that is outside.
    pub fn open(lab: &Lab) -> Result<Self> {
        Ok(Self {
            sender: Sender::new(&lab.far)?,
            start: Instant::now(),
            sent: AtomicU64::new(0),
        })
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends a frame, and answers between which times the kernel looked at it.
    pub fn send(&self, frame: &[u8]) -> Result<Bracket> {
        interrupt::check()?;
        let earliest = self.start.elapsed();
        self.sender.send(frame)?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let latest = self.start.elapsed() + DELAY_MAX;
        Ok(Bracket {
            earliest_ns: earliest.as_nanos().try_into()?,
            latest_ns: latest.as_nanos().try_into()?,
        })
    }
}
