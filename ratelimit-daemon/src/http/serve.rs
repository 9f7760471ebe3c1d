//! Accepting connections, with bounds: on how many there are, and on how long one may take.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use axum::{Router, http::Request, response::Response};
use hyper::{
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    control_api::{ControlApi, Peer},
    stream::Streams,
};

/// Connections of one listener at a time; others wait in its backlog.
const CONNECTIONS_MAX: usize = 64;
/// How long a client from the network may take to send the head of a request. Others have the time of a connection: with a timer for
/// each request, the runtime wakes itself for most of them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may last of which no answer is a stream.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// How long an error of `accept` (too many open files) is waited out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whether a client may ask more than once on a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeepAlive {
    /// Programs that ban thousands do so; it takes a good part of the time to connect.
    Yes,
    /// Whoever comes from the network asks once and hangs up: a connection that is kept holds a slot.
    No,
}

/// A listener of either kind.
trait Accept: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

/// What answers the requests of a connection.
trait Answers:
    Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send + 'static
{
}

impl<S> Answers for S where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
        + Send
        + 'static
{
}

/// Serves the control API until `stop`, to peers that may use it.
pub async fn serve_control(listener: UnixListener, api: ControlApi, stop: CancellationToken) {
    let streams = Streams::new(stop.clone());
    let for_peer = move |stream: &UnixStream| {
        let streams = streams.of_connection();
        let connection = Arc::new((api.clone(), Peer::of(stream), streams.clone()));
        let answer = move |request| {
            let connection = Arc::clone(&connection);
            async move {
                let (api, peer, streams) = &*connection;
                Ok(api.answer(peer, streams, request).await)
            }
        };
        (service_fn(answer), Some(streams))
    };
    serve(listener, for_peer, KeepAlive::Yes, stop).await;
}

/// Serves metrics until `stop`.
pub async fn serve_observe(listener: TcpListener, router: Router, stop: CancellationToken) {
    let service = move |_: &TcpStream| (TowerToHyperService::new(router.clone()), None);
    serve(listener, service, KeepAlive::No, stop).await;
}

async fn serve<L: Accept, S: Answers>(
    listener: L,
    service: impl Fn(&L::Stream) -> (S, Option<Streams>) + Send,
    keep_alive: KeepAlive,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    loop {
        let slot = slots
            .clone()
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) => {
                let (service, streams) = service(&stream);
                let stop = stop.clone();
                connections.spawn(async move {
                    connection(stream, service, streams, keep_alive, stop).await;
                    drop(slot);
                });
            }
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: impl Answers,
    streams: Option<Streams>,
    keep_alive: KeepAlive,
    stop: CancellationToken,
) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout((keep_alive == KeepAlive::No).then_some(HEAD_TIMEOUT))
        .keep_alive(keep_alive == KeepAlive::Yes)
        .serve_connection(TokioIo::new(stream), service);
    let too_long = async {
        sleep(CONNECTION_TIMEOUT).await;
        if let Some(streams) = streams {
            streams.end().await;
        }
    };
    let mut connection = std::pin::pin!(connection);
    let mut too_long = std::pin::pin!(too_long);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "a connection failed");
                }
                return;
            }
            () = &mut too_long => {
                debug!("a connection took too long and was closed");
                return;
            }
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                // After the answer that is under way, if there is one.
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
