//! A request to the daemon: HTTP/1 over its Unix socket.

use std::{
    cell::RefCell,
    env,
    io::{self, ErrorKind},
    net::IpAddr,
    path::{Path, PathBuf},
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
use ratelimit_core::{
    api::{
        APPLY_BYTES_MAX, PASS_ALL, PassAllStatus, REQUEST_BYTES_MAX, Refused, SSH_PEER, SUDO_USER,
        UNENFORCED, UNKEPT, Unenforced,
    },
    author, quantity,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::net::UnixStream;

use crate::{exit_code::ExitCode, failure::Failure, find_ssh_peer, stream::block_on};

/// The socket of the daemon.
const SOCKET: &str = "/run/ratelimit/control.sock";

/// The socket that `RATELIMIT_SOCKET` names, or the usual one.
pub fn default_socket() -> PathBuf {
    env::var_os("RATELIMIT_SOCKET").map_or_else(|| SOCKET.into(), PathBuf::from)
}

/// The total timeout of connecting, sending and reading the response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of requests that take longer: a list of a million entries, files of lists, and changes
/// that reload programs.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);

/// The hint if the daemon is not listening.
pub const ABSENT: &str = "is ratelimitd running? systemctl status ratelimitd";

/// The hint if the user may not use the socket.
const NO_PERMISSION: &str = "use sudo, or join the group of the socket";

/// Knows where the daemon listens.
pub struct Client {
    socket: PathBuf,
    timeout: Duration,
    ssh_peer: Option<IpAddr>,
    /// The user who runs `rlctl` through `sudo`.
    sudo_user: Option<String>,
    announced: RefCell<Announced>,
}

/// Warnings that the daemon adds to every answer.
#[derive(Clone, Debug, Default)]
pub struct Announced {
    /// Whether everything passes.
    pub pass_all: Option<PassAllStatus>,
    /// The reasons why changes could not be saved.
    pub unkept: Vec<String>,
    /// Interfaces that are not protected.
    pub unenforced: Vec<Unenforced>,
}

/// An answer of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    /// In the words of [`ratelimit_core::api`].
    pub value: T,
    /// The response as it arrived, including fields of a newer daemon.
    pub json: Value,
}

impl Client {
    /// A client of the daemon that listens on `socket`.
    pub fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            timeout: TIMEOUT,
            ssh_peer: find_ssh_peer::find(),
            sudo_user: env::var("SUDO_USER")
                .ok()
                .filter(|name| author::is_name(name)),
            announced: RefCell::default(),
        }
    }

    /// Returns the same client with a shorter timeout.
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Another one of the same daemon.
    pub fn another(&self) -> Self {
        Self::new(self.socket.clone())
    }

    /// Returns the warnings of the last answer.
    pub fn announced(&self) -> Announced {
        self.announced.borrow().clone()
    }

    /// Asks for something.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.send(Method::GET, path, Vec::new())
    }

    /// Sends a request without a body.
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

    /// Sends a text, with parameters in the query.
    pub fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
        body: Vec<u8>,
    ) -> Result<Answer<T>, Failure> {
        let request = self.build(Method::POST, &with_query(path, query), "text/plain", body);
        understand(&self.ask(request, LIST_TIMEOUT)?)
    }

    fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Answer<T>, Failure> {
        let request = self.request(method, path, body)?;
        let patience = match path.split_once('?').map_or(path, |(path, _)| path) {
            "/v1/reload" | "/v1/apply" | "/v1/rollback" | "/v1/limits" => LIST_TIMEOUT,
            _ => Duration::ZERO,
        };
        understand(&self.ask(request, patience)?)
    }

    /// Asks, and takes as much time as every request may take, or `patience` if that is more.
    fn ask(
        &self,
        request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<Response<Bytes>, Failure> {
        let timeout = self.timeout.max(patience);
        block_on(async {
            let answer = tokio::time::timeout(timeout, self.exchange(request)).await;
            answer.map_err(|_| self.silence(timeout))?
        })
    }

    /// A request that the daemon reads.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        require_room(path, &body)?;
        Ok(self.build(method, path, "application/json", body))
    }

    fn build(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Vec<u8>,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "ratelimitd")
            .header(CONTENT_TYPE, content);
        if let Some(peer) = self.ssh_peer {
            request = request.header(SSH_PEER, peer.to_string());
        }
        if let Some(user) = &self.sudo_user {
            request = request.header(SUDO_USER, user);
        }
        let request = request.body(Full::from(body));
        request.expect("paths are made of words, numbers and addresses, queries are encoded")
    }

    /// Asks, and takes the whole answer.
    pub(super) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, Failure> {
        let answer = self.head(request).await?;
        self.whole(answer).await
    }

    /// Sends a request and returns the body as a stream, unless the daemon refused. The body has no
    /// timeout.
    pub(super) async fn begin(&self, request: Request<Full<Bytes>>) -> Result<Incoming, Failure> {
        let answer = tokio::time::timeout(self.timeout, self.head(request)).await;
        let answer = answer.map_err(|_| self.silence(self.timeout))??;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let answer = self.whole(answer).await?;
        Err(refusal(answer.status(), answer.body()))
    }

    async fn whole(&self, answer: Response<Incoming>) -> Result<Response<Bytes>, Failure> {
        let (head, body) = answer.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|error| self.interrupted(&error))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    async fn head(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| self.unconnected(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.interrupted(&error))?;
        // An error of the connection also appears in `sender` and in the body.
        tokio::spawn(connection);
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| self.interrupted(&error))?;
        self.announced.replace(Announced {
            pass_all: in_header(&response, PASS_ALL),
            unkept: in_header(&response, UNKEPT).unwrap_or_default(),
            unenforced: in_header(&response, UNENFORCED).unwrap_or_default(),
        });
        Ok(response)
    }

    /// The connection was not made.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the kinds of errors of the system are open"
    )]
    fn unconnected(&self, error: &io::Error) -> Failure {
        let socket = self.socket.display();
        match error.kind() {
            ErrorKind::PermissionDenied => {
                let error = format!("no permission to use {socket}");
                Failure::new(ExitCode::NoPermission, error).hint(NO_PERMISSION)
            }
            ErrorKind::NotFound => {
                let error = format!("no daemon on {socket}: the socket does not exist");
                let hint = if self.socket == Path::new(SOCKET) {
                    ABSENT.to_owned()
                } else {
                    format!(
                        "{ABSENT}; it listens on {SOCKET} unless [paths] names another directory"
                    )
                };
                Failure::new(ExitCode::NoDaemon, error).hint(hint)
            }
            ErrorKind::ConnectionRefused => {
                Failure::new(ExitCode::NoDaemon, format!("no daemon on {socket}")).hint(ABSENT)
            }
            _ => Failure::new(
                ExitCode::NoDaemon,
                format!("no daemon on {socket}: {error}"),
            ),
        }
    }

    /// The connection was made, and then it broke.
    fn interrupted(&self, error: &hyper::Error) -> Failure {
        unanswered(self.broken(error))
    }

    /// A stream broke, which changes nothing.
    pub(super) fn cut_off(&self, error: &hyper::Error) -> Failure {
        Failure::new(ExitCode::NoDaemon, self.broken(error))
    }

    fn broken(&self, error: &hyper::Error) -> String {
        let socket = self.socket.display();
        format!("the daemon closed the connection on {socket}: {error}")
    }

    /// The connection was made, and then nothing came.
    fn silence(&self, timeout: Duration) -> Failure {
        let (socket, timeout) = (self.socket.display(), quantity::duration(timeout));
        unanswered(format!(
            "no answer from the daemon on {socket} within {timeout}"
        ))
    }
}

/// The outcome of the request is unknown.
fn unanswered(error: String) -> Failure {
    Failure::new(ExitCode::NoDaemon, error).hint("the change may have been made: see `rlctl list`")
}

fn in_header<T: DeserializeOwned>(response: &Response<Incoming>, name: &str) -> Option<T> {
    let header = response.headers().get(name)?;
    serde_json::from_slice(header.as_bytes()).ok()
}

pub(super) fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("requests have string keys and finite numbers")
}

/// Refuses what the daemon would refuse.
fn require_room(path: &str, body: &[u8]) -> Result<(), Failure> {
    let (most, what) = match path {
        "/v1/apply" => (APPLY_BYTES_MAX, "the file is too large for a configuration"),
        _ => (REQUEST_BYTES_MAX, "shorten the reason"),
    };
    if body.len() <= most {
        return Ok(());
    }
    let bytes = body.len();
    Err(Failure::usage(format!(
        "the request has {bytes} bytes, the daemon accepts at most {most}"
    ))
    .hint(what))
}

pub(super) fn with_query(path: &str, query: &impl Serialize) -> String {
    let query = serde_urlencoded::to_string(query).expect("queries are flat");
    format!("{path}?{query}")
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
    Failure::refused(format!("unexpected response of the daemon: {error}"))
        .hint("compare `rlctl --version` and `ratelimitd --version`")
}

fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let unknown = |_| Refused::because(format!("the daemon returned status {status}"));
    let mut refused: Refused = serde_json::from_slice(body).unwrap_or_else(unknown);
    let mut code = ExitCode::Refused;
    if status == StatusCode::FORBIDDEN {
        code = ExitCode::NoPermission;
        let hint = refused.hint.unwrap_or_else(|| NO_PERMISSION.to_owned());
        refused.hint = Some(hint);
    }
    Failure { code, refused }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixListener,
        thread,
    };

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
            timeout: Duration::from_millis(50),
            ..Client::new(socket)
        };
        let failure = client.get::<Value>("/v1/status").unwrap_err();
        assert_eq!(failure.code, ExitCode::NoDaemon);
        assert!(
            failure.refused.error.ends_with("within 50ms"),
            "{failure:?}"
        );
    }

    #[test]
    fn what_reads_lists_is_given_more_time() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("control.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        // It ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                thread::sleep(Duration::from_millis(500));
                // The client may have given up already.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull");
            }
        });
        let client = Client {
            timeout: Duration::from_millis(50),
            ..Client::new(socket)
        };
        for path in ["/v1/reload", "/v1/rollback"] {
            client.call::<Value>(path).unwrap();
        }
        client.post::<Value>("/v1/apply", &Value::Null).unwrap();
        client.call::<Value>("/v1/detach").unwrap_err();
    }

    #[test]
    fn a_request_that_the_daemon_would_not_read_is_not_sent() {
        assert!(require_room("/v1/bans", &vec![b' '; REQUEST_BYTES_MAX]).is_ok());
        let failure = require_room("/v1/bans", &vec![b' '; REQUEST_BYTES_MAX + 1]);
        assert_eq!(failure.unwrap_err().code, ExitCode::Usage);
    }

    fn check(kind: ErrorKind, expected: ExitCode) {
        let client = Client::new(PathBuf::from("/run/ratelimit/control.sock"));
        let failure = client.unconnected(&io::Error::from(kind));
        assert_eq!(failure.code, expected, "{kind}");
    }
}
