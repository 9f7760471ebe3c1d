//! A port that is served. If it is in use, everything else works, and it is retried each second.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    thread,
    time::Duration,
};

use tokio::sync::mpsc;
use tracing::info;

use crate::{clock, control::state::State};

/// The longest wait, with retries, for the previous listener to release the port.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
const TRY: Duration = Duration::from_millis(5);

/// Delivers listeners to the server; `None` closes the current one.
pub type Listeners = mpsc::UnboundedReceiver<Option<TcpListener>>;

/// A port, and the channel that delivers its listeners.
pub struct Port {
    /// The service, which also names the trouble if the port cannot be opened.
    what: &'static str,
    /// The functions that are unavailable without it.
    lost: &'static str,
    wanted: Option<SocketAddr>,
    is_bound: bool,
    listeners: Option<mpsc::UnboundedSender<Option<TcpListener>>>,
}

impl Port {
    /// The port for metrics.
    pub const METRICS: Self = Self::new("metrics", "metrics and /healthz are unavailable");
    /// The port for keys.
    pub const KEYS: Self = Self::new("keys", "applications and proxies cannot ask about keys");

    const fn new(what: &'static str, lost: &'static str) -> Self {
        Self {
            what,
            lost,
            wanted: None,
            is_bound: false,
            listeners: None,
        }
    }

    /// Returns the channel that will deliver the listeners.
    pub fn listeners(&mut self) -> Listeners {
        let (sender, listeners) = mpsc::unbounded_channel();
        self.listeners = Some(sender);
        listeners
    }

    /// Listens on the configured address, and reports failures.
    pub fn follow(&mut self, wanted: Option<SocketAddr>, state: &mut State) {
        if self.listeners.is_some() {
            let trouble = self.open(wanted);
            state.report(self.what, trouble);
        }
    }

    /// Tries to listen on `wanted`, and returns the error.
    fn open(&mut self, wanted: Option<SocketAddr>) -> Option<String> {
        if self.is_bound && self.wanted == wanted {
            return None;
        }
        self.wanted = wanted;
        let mut bound = wanted.map(TcpListener::bind).transpose();
        if !matches!(bound, Ok(Some(_))) && std::mem::take(&mut self.is_bound) {
            self.hand_over(None);
            // The old listener may block the new one, for example on the same port and another
            // address.
            let end = clock::monotonic() + ENDS_WITHIN;
            let is_held = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
            while bound.as_ref().is_err_and(is_held) && clock::monotonic() < end {
                thread::sleep(TRY);
                bound = wanted.map(TcpListener::bind).transpose();
            }
        }
        match bound {
            Ok(None) => None,
            Ok(Some(listener)) => {
                let address = listener.local_addr().ok().or(wanted);
                let address = address.map(|it| it.to_string());
                info!(address, "serving {}", self.what);
                self.hand_over(Some(listener));
                self.is_bound = true;
                None
            }
            Err(error) => wanted.map(|address| {
                let hint = hint(address, &error);
                let lost = self.lost;
                format!("listening on {address}: {error}{hint}; {lost}; retrying every second")
            }),
        }
    }

    fn hand_over(&self, listener: Option<TcpListener>) {
        if let Some(listeners) = &self.listeners {
            // The server may be gone if the daemon is stopping.
            let _ = listeners.send(listener);
        }
    }

    /// Retries to open the port.
    pub fn tick(&mut self, state: &mut State) {
        if self.wanted.is_some() && !self.is_bound {
            self.follow(self.wanted, state);
        }
    }
}

/// Suggests what to do about a privileged port, which the daemon may not open.
fn hint(address: SocketAddr, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return String::new();
    }
    let port = address.port();
    format!(
        " (the daemon has no privileges: use a port from 1024 on, or permit this one with \
         `sysctl net.ipv4.ip_unprivileged_port_start={port}`)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_somebody_else_holds_is_had_as_soon_as_it_is_free() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let wanted = other.local_addr().unwrap();
        let (sender, mut listeners) = mpsc::unbounded_channel();
        let mut port = Port {
            listeners: Some(sender),
            ..Port::METRICS
        };
        assert!(
            port.open(Some(wanted))
                .unwrap()
                .contains(&wanted.to_string())
        );
        drop(other);
        assert_eq!(port.open(Some(wanted)), None);
        assert!(listeners.try_recv().unwrap().is_some());
        assert_eq!(port.open(Some(wanted)), None);
        assert!(listeners.try_recv().is_err(), "it is had already");
        assert_eq!(port.open(None), None);
        assert!(listeners.try_recv().unwrap().is_none());
    }

    #[test]
    fn the_port_is_kept_where_only_the_address_is_another_one() {
        let (sender, mut listeners) = mpsc::unbounded_channel();
        let mut port = Port {
            listeners: Some(sender),
            ..Port::METRICS
        };
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = first.local_addr().unwrap();
        drop(first);
        assert_eq!(port.open(Some(here)), None);
        let serving = thread::spawn(move || {
            let first = listeners.blocking_recv().unwrap();
            let ends = listeners.blocking_recv().unwrap();
            thread::sleep(4 * TRY);
            drop((first, ends));
            listeners.blocking_recv().unwrap().is_some()
        });
        let everywhere = SocketAddr::from(([0, 0, 0, 0], here.port()));
        assert_eq!(port.open(Some(everywhere)), None);
        assert!(serving.join().unwrap());
    }

    #[test]
    fn a_port_that_takes_privileges_is_refused_with_a_hint() {
        let address = "127.0.0.1:80".parse().unwrap();
        let hint = |kind: io::ErrorKind| hint(address, &kind.into());
        let refused = hint(io::ErrorKind::PermissionDenied);
        assert!(refused.contains("from 1024 on"), "{refused}");
        assert!(refused.contains("port_start=80`"), "{refused}");
        assert_eq!(hint(io::ErrorKind::AddrInUse), "");
    }
}
