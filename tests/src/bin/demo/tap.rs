//! The receiving end of the link, behind the XDP program: what arrives there passed it.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use ratelimit_tests::{Lab, lab::Receiver as Socket};

use super::{frame, interrupt, wire::Wire};

/// How long a marker may be on its way.
const MARKER_MAX: Duration = Duration::from_secs(10);
const MARKER_POLL: Duration = Duration::from_millis(100);
/// How long a receive waits, so that its thread looks up now and then.
const RECEIVE_MAX: Duration = Duration::from_millis(20);

/// What arrived.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// Frames, those without a source included.
    pub frames: u64,
    by_source: HashMap<IpAddr, u64>,
}

impl Arrivals {
    /// Packets from any of `sources`.
    pub fn of(&self, sources: &[IpAddr]) -> u64 {
        sources
            .iter()
            .filter_map(|source| self.by_source.get(source))
            .sum()
    }

    fn add(&mut self, frame: &[u8]) {
        self.frames += 1;
        if let Some(source) = frame::source(frame) {
            *self.by_source.entry(source).or_default() += 1;
        }
    }
}

/// The end that receives, and the thread that counts there.
pub struct Tap {
    arrivals: Arc<Mutex<Arrivals>>,
    markers: Receiver<u32>,
    next_marker: AtomicU32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Tap {
    /// Starts to count.
    pub fn open(lab: &Lab) -> Result<Self> {
        let socket = Socket::new(&lab.near)?;
        let (arrivals, stop) = (Arc::default(), Arc::default());
        let (marker, markers) = mpsc::channel();
        let counter = Counter {
            socket,
            arrivals: Arc::clone(&arrivals),
            marker,
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new()
            .spawn(move || counter.run())
            .context("starting to count")?;
        Ok(Self {
            arrivals,
            markers,
            next_marker: AtomicU32::new(1),
            stop,
            thread: Some(thread),
        })
    }

    /// What arrived so far.
    pub fn arrivals(&self) -> Arrivals {
        lock(&self.arrivals).clone()
    }

    /// What arrived, after everything that was sent did or was dropped: a marker is sent behind it, and the link keeps the
    /// order.
    pub fn settled(&self, wire: &Wire) -> Result<Arrivals> {
        let number = self.next_marker.fetch_add(1, Ordering::Relaxed);
        wire.send(&frame::marker(number))?;
        let deadline = Instant::now() + MARKER_MAX;
        while self.markers.recv_timeout(MARKER_POLL) != Ok(number) {
            interrupt::check()?;
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                bail!("counting what arrives ended early");
            }
            if Instant::now() > deadline {
                bail!("a frame that passes every limit did not arrive within {MARKER_MAX:?}");
            }
        }
        Ok(self.arrivals())
    }

    /// Stops counting.
    pub fn close(&mut self) -> Result<()> {
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread
            .join()
            .map_err(|_| anyhow!("the counting thread panicked"))?
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // What it has to say was asked for by `close`, or something else went wrong before.
        let _ = self.join();
    }
}

struct Counter {
    socket: Socket,
    arrivals: Arc<Mutex<Arrivals>>,
    marker: Sender<u32>,
    stop: Arc<AtomicBool>,
}

impl Counter {
    fn run(mut self) -> Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(frame) = self.socket.next(RECEIVE_MAX)? else {
                continue;
            };
            lock(&self.arrivals).add(&frame);
            if let Some(number) = frame::marker_number(&frame) {
                // Nobody waits for it any more when the demo ends early.
                let _ = self.marker.send(number);
            }
        }
        match self.socket.lost()? {
            0 => Ok(()),
            lost => bail!("{lost} frames arrived and were not counted: this machine was too busy"),
        }
    }
}

/// Counts are whole after each addition, whatever a thread died of.
fn lock(arrivals: &Mutex<Arrivals>) -> MutexGuard<'_, Arrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}
