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
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{control_api::ControlApi, peer::Peer, stream::Streams};

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

/// Ends when all connections have, after `stop`. Where it is dropped before, they are cut off.
async fn serve<L: Accept, S: Answers>(
    listener: L,
    service: impl Fn(&L::Stream) -> (S, Option<Streams>) + Send,
    keep_alive: KeepAlive,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let slot = slots
            .clone()
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        while connections.try_join_next().is_some() {}
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
    while connections.join_next().await.is_some() {}
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn whoever_waits_for_an_answer_is_cut_off_when_serving_is() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("control.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = Arc::new(Semaphore::new(0));
        let service = {
            let asked = Arc::clone(&asked);
            move |_: &UnixStream| {
                let asked = Arc::clone(&asked);
                let answer = move |_| {
                    asked.add_permits(1);
                    pending::<Result<Response, Infallible>>()
                };
                (service_fn(answer), None)
            }
        };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, service, KeepAlive::Yes, stop.clone()));
        let client = UnixStream::connect(&socket).await.unwrap();
        let request = b"GET /v1/export HTTP/1.1\r\nhost: ratelimitd\r\n\r\n";
        assert_eq!(client.try_write(request).unwrap(), request.len());
        asked.acquire().await.unwrap().forget();
        stop.cancel();
        serving.abort();
        let end = timeout(PATIENCE, client.readable()).await;
        end.expect("the connection is closed").unwrap();
        assert_eq!(client.try_read(&mut [0]).unwrap(), 0);
    }
}
