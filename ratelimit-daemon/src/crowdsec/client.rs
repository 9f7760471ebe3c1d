//! A request to the local API: HTTP/1 over TCP or a Unix socket.

use std::{
    io,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use http_body_util::{BodyExt, Collected, Empty, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{ACCEPT, CONNECTION, HOST, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use ratelimit_core::config::crowdsec::{Address, Key, Secret};
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    task::JoinSet,
    time::timeout_at,
};

use super::cut;
use crate::clock;

/// The user agent of this bouncer: `cscli bouncers list` shows its parts as type and version.
const AGENT: &str = concat!("ratelimit/v", env!("CARGO_PKG_VERSION"));
/// The total timeout of connecting, sending and reading the response.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The largest answer: a million decisions.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The largest answer that is read where it has no decisions.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// The characters of a reason that are reported.
const MESSAGE_MAX: usize = 200;

/// The body of an answer, and the connection that it comes by.
type Exchange = (Incoming, JoinSet<hyper::Result<()>>);

/// Asks the local API.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    key: Key,
}

const SILENCE: &str = "no answer within a minute";

impl Client {
    /// A client of the API at `address`.
    pub fn new(address: Address, key: Key) -> Self {
        Self { address, key }
    }

    /// Requests all decisions if `whole`, otherwise the changes since the last request.
    pub async fn pull(&self, whole: bool) -> anyhow::Result<Answer> {
        let deadline = clock::monotonic() + TIMEOUT;
        let exchange = timeout_at(deadline.into(), self.exchange(whole));
        let (body, connection) = exchange.await.map_err(|_| anyhow!(SILENCE))??;
        Ok(Answer {
            body: Limited::new(body, ANSWER_BYTES_MAX),
            deadline,
            _connection: connection,
        })
    }

    async fn exchange(&self, whole: bool) -> anyhow::Result<Exchange> {
        let key = read(&self.key).await?;
        let mut key = HeaderValue::from_str(key.expose()).expect("a key is a word of ASCII");
        key.set_sensitive(true);
        let (host, path) = match &self.address {
            Address::Tcp { host, port, path } if host.contains(':') => {
                (format!("[{host}]:{port}"), path.as_str())
            }
            Address::Tcp { host, port, path } => (format!("{host}:{port}"), path.as_str()),
            Address::Unix(_) => ("localhost".to_owned(), ""),
        };
        let request = Request::get(format!(
            "{path}/v1/decisions/stream?startup={whole}&dedup=false"
        ))
        .header(HOST, host)
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .header(USER_AGENT, AGENT)
        .header("X-Api-Key", key)
        .body(Empty::new())
        .expect("hosts and paths come from an address that was parsed");
        match &self.address {
            Address::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                ask(stream, request).await
            }
            Address::Unix(socket) => ask(UnixStream::connect(socket).await, request).await,
        }
    }
}

/// An answer, as it comes.
#[derive(Debug)]
pub struct Answer {
    body: Limited<Incoming>,
    deadline: Instant,
    _connection: JoinSet<hyper::Result<()>>,
}

impl Answer {
    /// Returns the next bytes; `None` at the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            let frame = timeout_at(self.deadline.into(), self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| anyhow!(SILENCE))? else {
                return Ok(None);
            };
            // Behind the bytes there may be headers.
            if let Ok(bytes) = frame.map_err(of_body)?.into_data() {
                return Ok(Some(bytes));
            }
        }
    }
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: io::Result<S>,
    request: Request<Empty<Bytes>>,
) -> anyhow::Result<Exchange> {
    let stream = stream.map_err(|error| anyhow!("connecting: {error}"))?;
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|error| broken(&error))?;
    // An error of the connection also appears in `sender` and in the body. The connection ends with
    // this response, read or not.
    let mut task = JoinSet::new();
    task.spawn(connection);
    let answer = sender.send_request(request).await;
    let answer = answer.map_err(|error| broken(&error))?;
    let (head, body) = answer.into_parts();
    if head.status == StatusCode::OK {
        return Ok((body, task));
    }
    // Even if the body fails, the status is reported.
    let body = Limited::new(body, ERROR_BYTES_MAX).collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let message = message(&body);
    match head.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            bail!("the key was rejected ({message}): see `cscli bouncers list`")
        }
        status => bail!("status {status} ({message})"),
    }
}

fn broken(error: &hyper::Error) -> anyhow::Error {
    anyhow!("the connection failed: {error}")
}

fn of_body(error: Box<dyn std::error::Error + Send + Sync>) -> anyhow::Error {
    match error.downcast::<hyper::Error>() {
        Ok(error) => broken(&error),
        Err(error) => {
            debug_assert!(error.is::<LengthLimitError>());
            anyhow!("the response exceeds 256 MiB")
        }
    }
}

/// The key by which the local API knows this bouncer.
async fn read(key: &Key) -> anyhow::Result<Secret> {
    let path = match key {
        Key::Given(secret) => return Ok(secret.clone()),
        Key::File(path) => path,
    };
    let file = path.display();
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|error| anyhow!("reading the key from {file}: {error}"))?;
    let secret = Secret::new(text.trim());
    secret.with_context(|| format!("{file} has no key as printed by `cscli bouncers add`"))
}

/// Returns the message of an error response.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Said {
        message: String,
    }
    let said: Result<Said, _> = serde_json::from_slice(body);
    let Ok(Said { message }) = said else {
        return "without a reason".to_owned();
    };
    cut(&message, MESSAGE_MAX).to_owned()
}

#[cfg(test)]
mod tests;
