//! Reads an answer piece by piece, until either side ends it.

use std::{future::Future, io, time::Duration};

use http_body_util::BodyExt;
use hyper::Method;
use serde::Serialize;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use crate::{
    client::{self, Client},
    failure::Failure,
};

/// The side that ended a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The daemon ended the stream.
    Daemon,
    /// The user pressed Ctrl-C, or the program got another signal to end.
    User,
    /// Whoever takes the pieces has enough of them.
    Reader,
}

impl Client {
    /// Sends a request and passes each piece of the answer to `take` until it has enough. On Ctrl-C
    /// it sends `farewell` and continues until the daemon ends the stream.
    pub fn stream(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        farewell: Option<(&Method, &str)>,
        mut take: impl FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<Ended, Failure> {
        let request = self.request(method, path, body.map(client::json).unwrap_or_default())?;
        block_on(async {
            let mut until_stopped = std::pin::pin!(until_stopped());
            let mut body = self.begin(request).await?;
            let mut ended = Ended::Daemon;
            loop {
                let frame = tokio::select! {
                    frame = body.frame() => frame,
                    () = &mut until_stopped, if ended == Ended::Daemon => {
                        ended = Ended::User;
                        let Some((method, path)) = farewell else {
                            return Ok(ended);
                        };
                        self.exchange(self.request(method.clone(), path, Vec::new())?).await?;
                        continue;
                    }
                };
                let Some(frame) = frame else {
                    return Ok(ended);
                };
                let frame = frame.map_err(|error| self.cut_off(&error))?;
                if let Ok(piece) = frame.into_data()
                    && !take(&piece)?
                {
                    return Ok(Ended::Reader);
                }
            }
        })
    }

    /// Sends a request, and passes the answer to `take` piece by piece until that has enough.
    pub fn follow(
        &self,
        path: &str,
        take: impl FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<Ended, Failure> {
        self.stream(Method::GET, path, None::<&()>, None, take)
    }

    /// Sends a request, and returns the whole answer unchanged.
    pub fn text(&self, path: &str) -> Result<String, Failure> {
        let mut text = Vec::new();
        self.follow(path, |piece| {
            text.extend_from_slice(piece);
            Ok(true)
        })?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Does work that waits for the daemon.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::refused(format!("starting the client: {error}")))?;
    runtime.block_on(work)
}

/// Waits; returns `true` at once if the program gets a signal to end.
pub fn pause(time: Duration) -> Result<bool, Failure> {
    block_on(async { Ok(tokio::time::timeout(time, until_stopped()).await.is_ok()) })
}

/// Waits for Ctrl-C, SIGTERM or SIGHUP.
async fn until_stopped() {
    let signals = || -> io::Result<_> {
        Ok((
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ))
    };
    match signals() {
        Ok((mut interrupt, mut terminate, mut hangup)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        }
        // Then they end this program as they always do.
        Err(_) => std::future::pending().await,
    }
}
