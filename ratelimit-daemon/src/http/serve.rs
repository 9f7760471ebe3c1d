//! Accepting connections, with bounds: on how many there are, and on how long one may take.

use std::{
    convert::Infallible,
    future::{pending, ready},
    io,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    http::{Request, StatusCode},
    response::{IntoResponse as _, Response},
};
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
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    connection_limit::{Seat, Seats},
    control_api::{ControlApi, too_many_connections},
    key_api,
    listeners::serve_each,
    names::Names,
    peer::Peer,
};
use crate::{control::Listeners, keys::Keys, stream::Streams};

/// The number of connections to the control socket that are refused with an answer at a time;
/// others are closed.
const REFUSALS_MAX: usize = 16;
/// Connections of applications and proxies that ask about keys.
const OF_KEYS: usize = 4096;
/// The timeout for the head of a request from the network. Others have the duration of a
/// connection: with a timer per request, the runtime would wake up for most of them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest duration of a connection from the network.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// The pause after an error of `accept` (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whether a client may ask more than once on a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeepAlive {
    /// Programs that ban thousands do so; it takes a good part of the time to connect.
    Yes,
    /// Network clients get one request per connection: a persistent one would occupy a slot.
    No,
}

/// Serves the control API until `stop`, to peers that may use it.
pub async fn serve_control(listener: UnixListener, api: ControlApi, stop: CancellationToken) {
    let (seats, names) = (Seats::default(), Names::of_system());
    let all_streams = Streams::new(stop.clone());
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let begin = move |stream: UnixStream, connections: &mut JoinSet<()>| {
        let peer = Peer::of(&stream);
        let Some(seat) = seats.take(&peer) else {
            if let Ok(slot) = Arc::clone(&refusals).try_acquire_owned() {
                connections.spawn(refuse(stream, slot));
            }
            return;
        };
        let streams = all_streams.of_connection(peer.is_root());
        let shared = Arc::new((api.clone(), names.clone(), peer, streams, seat));
        connections.spawn(control_connection(
            stream,
            shared,
            all_streams.stop().clone(),
        ));
    };
    let listener = Arc::new(listener);
    let accept = move || {
        let listener = Arc::clone(&listener);
        async move { listener.accept().await }
    };
    serve(accept, begin, stop).await;
}

/// State shared by the requests of a connection.
type Shared = Arc<(ControlApi, Names, Peer, Streams, Seat)>;

async fn control_connection(stream: UnixStream, shared: Shared, stop: CancellationToken) {
    let presence = shared.4.presence().clone();
    let streams = shared.3.clone();
    let answer = move |request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let (api, names, peer, streams, seat) = &*shared;
            let (under_way, request) = seat.presence().begin(request);
            let peer = peer.named(names).await;
            let response = api.answer(&peer, streams, request).await;
            Ok(under_way.answer(response))
        }
    };
    let end = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = presence.is_to_leave() => {}
        }
    };
    let stream = presence.watch(stream);
    let too_long = presence.too_quiet(&streams);
    connection(stream, service_fn(answer), KeepAlive::Yes, too_long, end).await;
}

/// Answers that there are too many connections.
async fn refuse(stream: UnixStream, slot: OwnedSemaphorePermit) {
    let answer = |_: Request<Incoming>| ready(Ok(too_many_connections()));
    let too_long = sleep(HEAD_TIMEOUT);
    connection(
        stream,
        service_fn(answer),
        KeepAlive::No,
        too_long,
        pending(),
    )
    .await;
    drop(slot);
}

/// Serves metrics until `stop`.
pub async fn serve_read_only(listener: TcpListener, router: Router, stop: CancellationToken) {
    let (seats, ends) = (Seats::default(), stop.clone());
    let begin = move |stream: TcpStream, connections: &mut JoinSet<()>| {
        let address = stream.peer_addr().ok();
        let Some(seat) = address.and_then(|it| seats.take_from(it.ip())) else {
            debug!(?address, "closed a connection above the limit");
            return;
        };
        connections.spawn(network_connection(
            stream,
            router.clone(),
            seat,
            ends.clone(),
        ));
    };
    let listener = Arc::new(listener);
    let accept = move || {
        let listener = Arc::clone(&listener);
        async move { listener.accept().await }
    };
    serve(accept, begin, stop).await;
}

async fn network_connection(
    stream: TcpStream,
    router: Router,
    seat: Seat,
    stop: CancellationToken,
) {
    let presence = seat.presence().clone();
    let router = TowerToHyperService::new(router);
    let answer = move |request: Request<Incoming>| {
        let (under_way, request) = seat.presence().begin(request);
        let answer = router.call(request);
        async move { answer.await.map(|answer| under_way.answer(answer)) }
    };
    let end = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = presence.is_to_leave() => {}
        }
    };
    let too_long = sleep(CONNECTION_TIMEOUT);
    connection(stream, service_fn(answer), KeepAlive::No, too_long, end).await;
}

/// Serves keys until `stop`, to trusted clients. Others are closed: they could spend the quota of
/// users, and have clients banned.
pub async fn serve_keys(
    listeners: Listeners,
    keys: Keys,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    serve_each(listeners, stop, |listener, stop| {
        let (keys, ends) = (keys.clone(), stop.clone());
        let seats = Arc::new(Semaphore::new(OF_KEYS));
        let router = key_api::public_router(keys.clone());
        let begin = move |stream: TcpStream, connections: &mut JoinSet<()>| {
            let address = stream.peer_addr().ok();
            if !address.is_some_and(|it| keys.is_trusted(it.ip())) {
                debug!(
                    ?address,
                    "closed a connection that is not of a trusted proxy"
                );
                return;
            }
            let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
                debug!(?address, "closed a connection above the limit");
                return;
            };
            // Answers are short, and the next request waits for them.
            let _ = stream.set_nodelay(true);
            let router = router.clone();
            connections.spawn(key_connection(
                stream,
                keys.clone(),
                router,
                seat,
                ends.clone(),
            ));
        };
        let listener = Arc::new(listener);
        let accept = move || {
            let listener = Arc::clone(&listener);
            async move { listener.accept().await }
        };
        serve(accept, begin, stop)
    })
    .await
}

async fn key_connection(
    stream: TcpStream,
    keys: Keys,
    router: Router,
    seat: OwnedSemaphorePermit,
    stop: CancellationToken,
) {
    let address = stream.peer_addr().ok();
    let router = TowerToHyperService::new(router);
    let answer = move |request: Request<Incoming>| {
        // A reload may have removed it from the trusted ones since it connected.
        let is_trusted = address.is_some_and(|it| keys.is_trusted(it.ip()));
        let answer = router.call(request);
        async move {
            if is_trusted {
                answer.await
            } else {
                Ok(StatusCode::FORBIDDEN.into_response())
            }
        }
    };
    let end = async { stop.cancelled().await };
    connection(stream, service_fn(answer), KeepAlive::Yes, pending(), end).await;
    drop(seat);
}

/// Passes accepted clients to `begin`. After `stop` it closes the listener, and ends when all
/// connections have ended. Dropping it cuts them off.
async fn serve<S, A, F: Future<Output = io::Result<(S, A)>>>(
    accept: impl Fn() -> F,
    begin: impl Fn(S, &mut JoinSet<()>),
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => begin(stream, &mut connections),
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(accept);
    while connections.join_next().await.is_some() {}
}

/// Serves one connection: until `end` and the answer that is under way then, and not for
/// `too_long`.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
    + Send
    + 'static,
    keep_alive: KeepAlive,
    too_long: impl Future<Output = ()>,
    end: impl Future<Output = ()>,
) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout((keep_alive == KeepAlive::No).then_some(HEAD_TIMEOUT))
        .keep_alive(keep_alive == KeepAlive::Yes)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let (mut too_long, mut end) = (pin!(too_long), pin!(end));
    let mut is_ending = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "a connection failed");
                }
                return;
            }
            () = &mut too_long => {
                debug!("closed a slow connection");
                return;
            }
            () = &mut end, if !is_ending => {
                is_ending = true;
                // After the answer that is under way, if there is one.
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use tokio::{task::spawn_blocking, time::timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn whoever_waits_for_an_answer_is_cut_off_when_serving_is() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("control.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = Arc::new(Semaphore::new(0));
        let begin = {
            let asked = Arc::clone(&asked);
            move |stream: UnixStream, connections: &mut JoinSet<()>| {
                let asked = Arc::clone(&asked);
                let answer = move |_| {
                    asked.add_permits(1);
                    pending::<Result<Response, Infallible>>()
                };
                let service = service_fn(answer);
                connections.spawn(connection(
                    stream,
                    service,
                    KeepAlive::Yes,
                    pending(),
                    pending(),
                ));
            }
        };
        let stop = CancellationToken::new();
        let ends = stop.clone();
        let serving = tokio::spawn(async move {
            serve(|| listener.accept(), begin, ends).await;
        });
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

    #[tokio::test]
    async fn silent_connections_keep_no_one_else_from_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_read_only(listener, Router::new(), stop.clone()));
        let asking = spawn_blocking(move || {
            let connect = || std::net::TcpStream::connect(address).unwrap();
            let silent: Vec<_> = (0..200).map(|_| connect()).collect();
            let mut client = connect();
            client
                .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .unwrap();
            let mut answer = [0; 8];
            client.read_exact(&mut answer).unwrap();
            drop(silent);
            answer
        });
        // Less than a silent connection is waited for.
        let answer = timeout(HEAD_TIMEOUT / 2, asking).await;
        assert_eq!(&answer.expect("it is answered").unwrap(), b"HTTP/1.1");
        stop.cancel();
        serving.await.unwrap();
    }
}
