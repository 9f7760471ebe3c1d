//! Captures of dropped packets: the kernel copies them into a ring, and this module writes a pcapng
//! file for the client.
//!
//! Only one capture can run. The kernel stops copying unless it is renewed while the client reads,
//! so a killed daemon leaves no copying behind.

mod maps;
mod pcapng;

use std::{collections::BTreeMap, io, time::Duration};

use anyhow::Context;
use axum::body::Bytes;
use ratelimit_core::api::{CaptureRequest, Refused};
use tokio::{
    io::unix::AsyncFd,
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::maps::CaptureMaps;
use self::pcapng::Writer;
use crate::{clock, stream};

/// The time for which the kernel continues without a renewal.
const LEASE: Duration = Duration::from_secs(5);
/// The interval of renewals.
const RENEWAL: Duration = Duration::from_secs(1);
/// The bytes per write.
const PIECE_BYTES: usize = 1 << 16;
/// Requests that may wait for their turn.
const QUEUE: usize = 8;

/// Begins and ends captures.
#[derive(Clone)]
pub struct Recorder(mpsc::Sender<Request>);

enum Request {
    Begin(Box<Wanted>, oneshot::Sender<Result<(), Refused>>),
    End(oneshot::Sender<bool>),
}

/// A requested capture and its output.
pub struct Wanted {
    /// The request.
    pub request: CaptureRequest,
    /// The user who started it.
    pub author: String,
    /// The interfaces by their slots.
    pub interfaces: BTreeMap<u32, String>,
    /// The writer to the client.
    pub writer: stream::Writer,
}

impl Recorder {
    /// A recorder, and what [`serve`] takes.
    pub fn new() -> (Self, Requests) {
        let (sender, requests) = mpsc::channel(QUEUE);
        (Self(sender), Requests(requests))
    }

    /// Begins a capture.
    pub async fn begin(&self, wanted: Wanted) -> Result<(), Refused> {
        let (sender, answer) = oneshot::channel();
        let request = Request::Begin(Box::new(wanted), sender);
        let sent = self.0.send(request).await;
        match (sent, answer.await) {
            (Ok(()), Ok(answer)) => answer,
            _ => Err(Refused::because("the daemon is stopping")),
        }
    }

    /// Ends the running capture. `false` if there is none.
    pub async fn end(&self) -> bool {
        let (sender, answer) = oneshot::channel();
        self.0.send(Request::End(sender)).await.is_ok() && answer.await.unwrap_or(false)
    }
}

/// Requests to a [`Recorder`].
pub struct Requests(mpsc::Receiver<Request>);

/// Carries out captures until `stop`.
pub async fn serve(
    mut maps: CaptureMaps,
    mut requests: Requests,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // A killed daemon may have left its lease.
    maps.end().context("ending a previous capture")?;
    loop {
        let request = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            request = requests.0.recv() => request,
        };
        match request {
            Some(Request::Begin(wanted, answer)) => {
                let begun = maps.begin(&wanted.request, LEASE);
                let is_begun = begun.is_ok();
                // The client may be gone; then the stream has ended too.
                let _ = answer.send(begun);
                if is_begun {
                    info!(author = wanted.author, "capturing dropped packets");
                    record(&mut maps, &mut requests, &wanted).await?;
                    maps.end().context("ending a capture")?;
                    info!(author = wanted.author, "capture ended");
                }
            }
            Some(Request::End(answer)) => {
                let _ = answer.send(false);
            }
            None => return Ok(()),
        }
    }
}

/// Writes packets until the requested number or time is reached, or one side ends it.
async fn record(
    maps: &mut CaptureMaps,
    requests: &mut Requests,
    wanted: &Wanted,
) -> anyhow::Result<()> {
    let request = &wanted.request;
    let mut file = Writer::new(request, &wanted.interfaces);
    let mut piece = Bytes::from(file.header());
    let mut left = request.count.unwrap_or(u64::MAX);
    let started = Instant::from(clock::monotonic());
    let end = request.seconds.and_then(|seconds| {
        let time = Duration::try_from_secs_f64(seconds).ok()?;
        started.checked_add(time)
    });
    let mut renewal = clock::ticks(RENEWAL);
    // SAFETY: the descriptor is owned, and stays open and the same as long as it lives.
    let ring = unsafe { AsyncFd::register(maps.ring_fd()?) };
    let ring = ring
        .map_err(io::Error::from)
        .context("waiting for packets")?;
    let mut is_ending = false;
    while !(is_ending && piece.is_empty()) {
        tokio::select! {
            () = wanted.writer.ended() => return Ok(()),
            is_read = wanted.writer.write(piece.clone()), if !piece.is_empty() => {
                if !is_read {
                    return Ok(());
                }
                piece = Bytes::new();
            }
            ready = ring.readable(), if piece.is_empty() => {
                let mut ready = ready.context("waiting for packets")?;
                let mut bytes = Vec::new();
                let is_empty = maps.read(PIECE_BYTES, &mut left, |head, frame| {
                    bytes.extend(file.packet(head, frame));
                    bytes.len()
                });
                if is_empty {
                    ready.clear_ready();
                }
                piece = bytes.into();
                is_ending = left == 0;
            }
            _ = renewal.tick() => maps.renew(LEASE)?,
            () = sleep_until(end.unwrap_or(started)), if end.is_some() && !is_ending => {
                is_ending = true;
            }
            asked = requests.0.recv(), if !is_ending => match asked {
                Some(Request::End(answer)) => {
                    let _ = answer.send(true);
                    is_ending = true;
                }
                Some(Request::Begin(_, answer)) => {
                    let error = format!("a capture is already running, for {}", wanted.author);
                    let hint = "wait for it to end, or end it";
                    let _ = answer.send(Err(Refused::because(error).hint(hint)));
                }
                None => is_ending = true,
            },
        }
    }
    finish(maps, &mut file, wanted, left).await
}

/// Writes what is still in the ring, and how much is missing.
async fn finish(
    maps: &mut CaptureMaps,
    file: &mut Writer,
    wanted: &Wanted,
    mut left: u64,
) -> anyhow::Result<()> {
    maps.stop().context("ending a capture")?;
    let mut bytes = Vec::new();
    maps.read(usize::MAX, &mut left, |head, frame| {
        bytes.extend(file.packet(head, frame));
        bytes.len()
    });
    for (slot, tally) in maps.tallies(wanted.interfaces.keys().copied())? {
        bytes.extend(file.statistics(slot, &tally, clock::now()));
    }
    wanted.writer.write(bytes.into()).await;
    Ok(())
}
