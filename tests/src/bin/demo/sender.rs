//! Sending from several sources at the same time, each at its own pace.

use std::{
    iter,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_tests::exactness::bracketed::Bracket;

use super::{plan::Flow, wire::Wire};

/// A source that was held up longer does not catch up: it would be faster than its pace.
const LATE_MAX: Duration = Duration::from_millis(5);

/// Sends for `duration`, counting in `sent`, and answers when the kernel looked at the packets of each flow. One thread does it all, so that the
/// frames are looked at in the order in which they were sent.
pub fn send(
    wire: &Wire,
    flows: &[Flow],
    duration: Duration,
    sent: &[AtomicU64],
) -> Result<Vec<Vec<Bracket>>> {
    let start = Instant::now();
    let mut lanes: Vec<Lane> = iter::zip(flows, sent)
        .map(|(flow, sent)| Lane::new(flow, sent, start))
        .collect();
    while let Some(lane) = lanes.iter_mut().min_by_key(|lane| lane.due) {
        if lane.due >= start + duration {
            break;
        }
        thread::sleep(lane.due.saturating_duration_since(Instant::now()));
        lane.send(wire)?;
    }
    Ok(lanes.into_iter().map(|lane| lane.brackets).collect())
}

/// What one flow has sent, and when it sends next.
struct Lane<'f> {
    frames: Vec<Vec<u8>>,
    gap: Duration,
    due: Instant,
    sent: &'f AtomicU64,
    brackets: Vec<Bracket>,
}

impl<'f> Lane<'f> {
    fn new(flow: &Flow, sent: &'f AtomicU64, start: Instant) -> Self {
        Self {
            frames: flow.frames(),
            gap: flow.gap,
            due: start,
            sent,
            brackets: Vec::new(),
        }
    }

    /// Sends the frame of the host whose turn it is.
    fn send(&mut self, wire: &Wire) -> Result<()> {
        let now = Instant::now();
        if now.saturating_duration_since(self.due) > LATE_MAX {
            self.due = now;
        }
        let frame = &self.frames[self.brackets.len() % self.frames.len()];
        // Counted first: at no time has more arrived than was sent.
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.brackets.push(wire.send(frame)?);
        self.due += self.gap;
        Ok(())
    }
}
