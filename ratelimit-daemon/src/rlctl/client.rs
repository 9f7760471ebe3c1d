//! One request to the daemon, one answer: HTTP/1 over its Unix socket.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::CONTENT_TYPE,
};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::net::UnixStream;

use crate::{
    api::{REQUEST_BYTES_MAX, Refused},
    quantity,
    rlctl::{exit_code::ExitCode, failure::Failure},
};

/// How long connecting, asking and reading the answer may take together.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Knows where the daemon listens.
pub struct Client {
    socket: PathBuf,
    timeout: Duration,
}

/// What the daemon answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    /// In the words of [`crate::api`].
    pub value: T,
    /// As it came, with whatever a newer daemon adds.
    pub json: Value,
}

impl Client {
    /// A client of the daemon that listens on `socket`.
    pub fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            timeout: TIMEOUT,
        }
    }

    /// Asks for something.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.send(Method::GET, path, Vec::new())
    }

    /// Tells the daemon to do something that needs no more words.
    pub fn call<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.send(Method::POST, path, Vec::new())
    }

    /// Adds something.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.send(Method::POST, path, json(body))
    }

    /// Takes something away.
    pub fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.send(Method::DELETE, path, json(body))
    }

    fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Answer<T>, Failure> {
        let request = request(method, path, body)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::refused(format!("starting the client: {error}")))?;
        let exchange = async { tokio::time::timeout(self.timeout, self.exchange(request)).await };
        let response = runtime.block_on(exchange).map_err(|_| self.silence())??;
        understand(&response)
    }

    /// Asks, and takes the whole answer.
    pub(super) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, Failure> {
        let (head, body) = self.ask(request).await?.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|error| self.interrupted(&error))?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    /// Asks, and takes the head of an answer that is no refusal; the body may go on as long as it likes.
    pub(super) async fn begin(&self, request: Request<Full<Bytes>>) -> Result<Incoming, Failure> {
        let response = tokio::time::timeout(self.timeout, self.ask(request)).await;
        let (head, body) = response.map_err(|_| self.silence())??.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let body = body.collect().await;
        let body = body.map_err(|error| self.interrupted(&error))?.to_bytes();
        Err(refusal(head.status, &body))
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| self.unconnected(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.interrupted(&error))?;
        // What fails on the connection fails in `sender` and in the body too.
        tokio::spawn(connection);
        let response = sender.send_request(request).await;
        response.map_err(|error| self.interrupted(&error))
    }

    /// The connection was not made.
    fn unconnected(&self, error: &io::Error) -> Failure {
        let socket = self.socket.display();
        match error.kind() {
            ErrorKind::PermissionDenied => no_permission(format!("no permission to use {socket}")),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                Failure::new(ExitCode::NoDaemon, format!("no daemon answers on {socket}"))
                    .hint("is ratelimitd running? systemctl status ratelimitd")
            }
            _ => Failure::new(
                ExitCode::NoDaemon,
                format!("no daemon answers on {socket}: {error}"),
            ),
        }
    }

    /// The connection was made, and then it broke.
    pub(super) fn interrupted(&self, error: &hyper::Error) -> Failure {
        Failure::new(
            ExitCode::NoDaemon,
            format!(
                "whoever listens on {} broke the connection off: {error}",
                self.socket.display()
            ),
        )
        .hint("a change may have been made all the same: see `rlctl list`")
    }

    /// The connection was made, and then nothing came.
    fn silence(&self) -> Failure {
        Failure::new(
            ExitCode::NoDaemon,
            format!(
                "no daemon answers on {}: nothing came within {}",
                self.socket.display(),
                quantity::duration(self.timeout),
            ),
        )
        .hint("a change may have been made all the same: see `rlctl list`")
    }
}

pub(super) fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("requests have string keys and finite numbers")
}

pub(super) fn request(
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Request<Full<Bytes>>, Failure> {
    if body.len() > REQUEST_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the request has {} bytes, the daemon takes at most {REQUEST_BYTES_MAX}",
            body.len()
        ))
        .hint("is the reason that long?"));
    }
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "ratelimitd")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body));
    Ok(request.expect("paths are made of words, numbers and addresses"))
}

fn understand<T: DeserializeOwned>(response: &Response<Bytes>) -> Result<Answer<T>, Failure> {
    if !response.status().is_success() {
        return Err(refusal(response.status(), response.body()));
    }
    let json: Value = serde_json::from_slice(response.body()).map_err(|error| garbled(&error))?;
    let value = T::deserialize(&json).map_err(|error| garbled(&error))?;
    Ok(Answer { value, json })
}

fn garbled(error: &serde_json::Error) -> Failure {
    Failure::refused(format!("the daemon's answer is not understood: {error}"))
        .hint("are rlctl and ratelimitd of the same version? compare `--version`")
}

fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let refused = serde_json::from_slice(body).unwrap_or_else(|_| Refused {
        error: format!("the daemon answers {status}"),
        hint: None,
    });
    if status != StatusCode::FORBIDDEN {
        return Failure {
            code: ExitCode::Refused,
            refused,
        };
    }
    let failure = no_permission(refused.error);
    match refused.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn no_permission(error: String) -> Failure {
    Failure::new(ExitCode::NoPermission, error)
        .hint("use sudo, or join the group that the socket belongs to")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_that_may_not_be_used_is_no_permission() {
        check(ErrorKind::PermissionDenied, ExitCode::NoPermission);
    }

    #[test]
    fn a_socket_where_nobody_listens_is_no_daemon() {
        check(ErrorKind::NotFound, ExitCode::NoDaemon);
        check(ErrorKind::ConnectionRefused, ExitCode::NoDaemon);
        check(ErrorKind::WouldBlock, ExitCode::NoDaemon);
    }

    #[test]
    fn a_daemon_that_hangs_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("control.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let client = Client {
            socket,
            timeout: Duration::from_millis(50),
        };
        let failure = client.get::<Value>("/v1/status").unwrap_err();
        assert_eq!(failure.code, ExitCode::NoDaemon);
        assert!(
            failure.refused.error.ends_with("nothing came within 50ms"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_request_that_the_daemon_would_not_read_is_not_sent() {
        let largest = request(Method::POST, "/v1/bans", vec![b' '; REQUEST_BYTES_MAX]);
        assert!(largest.is_ok());
        let failure = request(Method::POST, "/v1/bans", vec![b' '; REQUEST_BYTES_MAX + 1]);
        assert_eq!(failure.unwrap_err().code, ExitCode::Usage);
    }

    fn check(kind: ErrorKind, expected: ExitCode) {
        let client = Client::new(PathBuf::from("/run/ratelimit/control.sock"));
        let failure = client.unconnected(&io::Error::from(kind));
        assert_eq!(failure.code, expected, "{kind}");
    }
}
