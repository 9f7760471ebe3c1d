//! Answers without an end: they continue until the client disconnects or the daemon stops.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Streams at a time, of root and of all others: the rest of the connections is for those who ask
/// once.
const STREAMS_MAX: usize = 16;
/// Pieces of a stream that wait for a slow client.
const PIECES_MAX: usize = 16;
/// The time that a client has to read the rest when the daemon stops.
const GRACE: Duration = Duration::from_secs(1);

/// The streams of a listener, as one of its connections sees them.
#[derive(Clone)]
pub struct Streams {
    stop: CancellationToken,
    slots: Arc<Semaphore>,
    slots_of_root: Arc<Semaphore>,
    /// Whether this connection has a stream.
    is_used: Arc<AtomicBool>,
}

/// Writes a stream.
pub struct Writer {
    pieces: mpsc::Sender<Bytes>,
    stop: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

impl Streams {
    /// Streams that end with `stop`.
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            slots: Arc::new(Semaphore::new(STREAMS_MAX)),
            slots_of_root: Arc::new(Semaphore::new(STREAMS_MAX)),
            is_used: Arc::default(),
        }
    }

    /// Returns the streams of another connection.
    pub fn of_connection(&self, is_root: bool) -> Self {
        let slots = if is_root {
            &self.slots_of_root
        } else {
            &self.slots
        };
        Self {
            slots: Arc::clone(slots),
            is_used: Arc::default(),
            ..self.clone()
        }
    }

    /// Ends all streams.
    pub const fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Begins a stream: the body of the answer, and where it is written to; `None` where there are
    /// as many as there may be.
    pub fn begin(&self) -> Option<(Writer, Body)> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        self.is_used.store(true, Relaxed);
        let (pieces, body) = mpsc::channel(PIECES_MAX);
        let writer = Writer {
            pieces,
            stop: self.stop.clone(),
            _slot: slot,
        };
        Some((writer, Body::new(Pieces(body))))
    }

    /// Waits as long as the stream of this connection may last; no time when it has none.
    pub async fn end(&self) {
        if self.is_used.load(Relaxed) {
            self.stop.cancelled().await;
            sleep(GRACE).await;
        }
    }
}

impl Writer {
    /// Writes a piece when there is room; returns `false` if the reader is gone.
    pub async fn write(&self, piece: Bytes) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Waits until there is nothing more to write: the client hung up, or the daemon stops.
    pub async fn ended(&self) {
        tokio::select! {
            () = self.pieces.closed() => {}
            () = self.stop.cancelled() => {}
        }
    }
}

/// A body that comes in pieces.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_connections_for_others_and_their_slots_come_back() {
        let streams = Streams::new(CancellationToken::new());
        let begun: Vec<_> = (0..STREAMS_MAX).map(|_| streams.begin().unwrap()).collect();
        let other = streams.of_connection(false);
        assert!(other.begin().is_none());
        assert!(streams.of_connection(true).begin().is_some());
        drop(begun);
        assert!(streams.begin().is_some());
    }
}
