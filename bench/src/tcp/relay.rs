//! A way between two interfaces on which each frame takes a time: the kernel need not have netem.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ratelimit_tests::lab::{Namespace, Receiver, Sender};

/// The longest wait of a thread for a frame before it checks whether all is over.
const PATIENCE: Duration = Duration::from_millis(100);

/// The way. It ends when this is dropped.
pub struct Relay {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
    namespace: Namespace,
}

impl Relay {
    /// Joins two interfaces of a namespace. Each frame takes so long from one to the other.
    pub fn new(namespace: Namespace, [one, other]: [&str; 2], delay: Duration) -> Result<Self> {
        let mut relay = Self {
            is_over: Arc::default(),
            threads: vec![],
            namespace,
        };
        relay.join(one, other, delay)?;
        relay.join(other, one, delay)?;
        Ok(relay)
    }

    /// Relays one direction: one thread reads, and another one sends each frame when it is due.
    fn join(&mut self, from: &str, to: &str, delay: Duration) -> Result<()> {
        let mut receiver = Receiver::on(&self.namespace, from)?;
        let sender = Sender::on(&self.namespace, to)?;
        let (frames, due) = mpsc::channel();
        let is_over = Arc::clone(&self.is_over);
        self.threads.push(thread::spawn(move || {
            while !is_over.load(Relaxed) {
                if let Some(frame) = receiver.next(PATIENCE)? {
                    frames.send((Instant::now() + delay, frame))?;
                }
            }
            let lost = receiver.lost()?;
            ensure!(lost == 0, "{lost} frames found no room");
            Ok(())
        }));
        self.threads.push(thread::spawn(move || {
            for (at, frame) in due {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                sender.send(&frame)?;
            }
            Ok(())
        }));
        Ok(())
    }

    /// Ends it. An error means that frames were lost, which the measured limiter did not cause.
    pub fn end(&mut self) -> Result<()> {
        self.is_over.store(true, Relaxed);
        let mut threads = self.threads.drain(..);
        threads.try_for_each(|thread| thread.join().expect("it does not panic"))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The first error was already reported.
        let _ = self.end();
    }
}
