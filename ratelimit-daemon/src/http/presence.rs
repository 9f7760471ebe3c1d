//! The activity of a connection: whether it may be closed for another, and whether it has been idle
//! for too long.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, HttpBody},
    http::Request,
    response::Response,
};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep_until,
};
use tokio_util::{
    io::{InspectReader, InspectWriter},
    sync::CancellationToken,
};

use crate::{clock, stream::Streams};

/// The longest gap between the bytes of a request or of its response. Processing a complete request
/// has no limit.
const QUIET_MAX: Duration = Duration::from_mins(1);
/// The limit for a connection that is being closed.
const LEAVING_MAX: Duration = Duration::from_secs(1);

/// The activity of a connection.
#[derive(Clone, Debug)]
pub struct Presence(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    begun: Instant,
    /// Milliseconds from `begun` to the last byte.
    moved_ms: AtomicU64,
    /// [`Phase`] as a number.
    phase: AtomicU64,
    leave: CancellationToken,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// It waits for the next request.
    Idle = 0,
    /// A request comes.
    Asking = 1,
    /// The request has been read, and its answer is being made.
    Working = 2,
    /// The answer is being written.
    ReportedAddresses = 3,
}

impl Presence {
    /// A connection that has just been made.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            begun: clock::monotonic(),
            moved_ms: AtomicU64::new(0),
            phase: AtomicU64::new(Phase::Idle as u64),
            leave: CancellationToken::new(),
        }))
    }

    /// The time since which it waits for a request; `None` while one is under way, or if it already
    /// gives way.
    pub fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.is_in(Phase::Idle) && !self.is_leaving();
        is_idle.then(|| self.moved_at())
    }

    /// Whether it gives way.
    pub fn is_leaving(&self) -> bool {
        self.0.leave.is_cancelled()
    }

    /// Whether it is of the same connection.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Is to end after the answer that is under way, if there is one.
    pub fn leave(&self) {
        self.0.leave.cancel();
    }

    /// Waits until it is to end.
    pub async fn is_to_leave(&self) {
        self.0.leave.cancelled().await;
    }

    /// Waits until nothing was received or sent for too long. Pending requests and streams do not
    /// count as idle.
    pub async fn too_quiet(&self, streams: &Streams) {
        self.quiet_for(QUIET_MAX, LEAVING_MAX, streams).await;
    }

    async fn quiet_for(&self, quiet_max: Duration, leaving_max: Duration, streams: &Streams) {
        loop {
            let is_leaving = self.is_leaving();
            let patience = if is_leaving && self.is_in(Phase::Idle) {
                leaving_max
            } else {
                quiet_max
            };
            let now = clock::monotonic();
            let over = if self.is_in(Phase::Working) {
                now + patience
            } else {
                self.moved_at() + patience
            };
            if over <= now {
                return streams.end().await;
            }
            tokio::select! {
                () = sleep_until(over.into()) => {}
                () = self.0.leave.cancelled(), if !is_leaving => {}
            }
        }
    }

    /// A request begins.
    pub fn begin<B: HttpBody>(&self, request: Request<B>) -> (UnderWay, Request<TrackedBody<B>>) {
        let is_whole = request.body().is_end_stream();
        self.enter(if is_whole {
            Phase::Working
        } else {
            Phase::Asking
        });
        let request = request.map(|body| TrackedBody {
            body: Box::pin(body),
            presence: self.clone(),
        });
        (UnderWay(self.clone()), request)
    }

    /// The connection, with a note of each byte.
    pub fn watch<S: AsyncRead + AsyncWrite>(
        &self,
        stream: S,
    ) -> impl AsyncRead + AsyncWrite + use<S> {
        let (read, written) = (self.clone(), self.clone());
        let stream = InspectWriter::new(stream, move |_: &[u8]| written.move_on());
        InspectReader::new(stream, move |_: &[u8]| read.move_on())
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.0.phase.load(Relaxed) == phase as u64
    }

    fn enter(&self, phase: Phase) {
        self.0.phase.store(phase as u64, Relaxed);
        self.move_on();
    }

    fn move_on(&self) {
        let moved = clock::elapsed(self.0.begun).as_millis();
        let moved = u64::try_from(moved).unwrap_or(u64::MAX);
        self.0.moved_ms.store(moved, Relaxed);
    }

    fn moved_at(&self) -> Instant {
        self.0.begun + Duration::from_millis(self.0.moved_ms.load(Relaxed))
    }
}

/// A request, until its answer was written or the client is gone.
pub struct UnderWay(Presence);

impl UnderWay {
    /// The answer, which ends the request with its last byte.
    pub fn answer(self, response: Response) -> Response {
        self.0.enter(Phase::ReportedAddresses);
        // The closure ends with the body, and this with the closure.
        let kept = move |_: &_| {
            let _held = &self;
        };
        response.map(|body| Body::new(body.inspect_err(kept)))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

/// The body of a request, with a note of its end.
pub struct TrackedBody<B> {
    body: Pin<Box<B>>,
    presence: Presence,
}

impl<B: HttpBody> HttpBody for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = self.body.as_mut().poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.presence.enter(Phase::Working);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;

    use super::*;

    const QUIET: Duration = Duration::from_millis(400);
    const LEAVING: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_request_that_has_been_read_is_waited_for_and_others_are_not() {
        assert_eq!(end_of(&Presence::new()).await, End::Quiet);
        let working = Presence::new();
        let (under_way, _asked) = working.begin(Request::new(Body::empty()));
        assert_eq!(end_of(&working).await, End::None);
        // A client that does not read its answer is not waited for.
        let _response = under_way.answer(Response::new(Body::empty()));
        assert_eq!(end_of(&working).await, End::Quiet);
        let asking = Presence::new();
        let _asked = asking.begin(Request::new(Body::new(Unread)));
        assert_eq!(end_of(&asking).await, End::Quiet);
    }

    #[tokio::test]
    async fn whoever_gives_way_is_gone_soon_and_a_request_under_way_is_not() {
        let idle = Presence::new();
        idle.leave();
        assert_eq!(end_of(&idle).await, End::Soon);
        let working = Presence::new();
        let _under_way = working.begin(Request::new(Body::empty()));
        working.leave();
        assert_eq!(end_of(&working).await, End::None);
    }

    #[derive(Debug, PartialEq)]
    enum End {
        Soon,
        Quiet,
        None,
    }

    async fn end_of(presence: &Presence) -> End {
        let streams = Streams::new(CancellationToken::new());
        let begun = clock::monotonic();
        let quiet = presence.quiet_for(QUIET, LEAVING, &streams);
        match tokio::time::timeout(3 * QUIET, quiet).await {
            Ok(()) if clock::elapsed(begun) < QUIET / 2 => End::Soon,
            Ok(()) => End::Quiet,
            Err(_) => End::None,
        }
    }

    /// A body that does not come.
    struct Unread;

    impl HttpBody for Unread {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Poll::Pending
        }
    }
}
