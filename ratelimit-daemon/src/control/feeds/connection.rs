//! A connection to a configured server, as it was last seen.

use crate::clock;
use jiff::Timestamp;
use tokio::sync::watch;

/// The wanted connection, and its state.
#[derive(Debug)]
pub struct Connection<T> {
    wish: watch::Sender<Option<T>>,
    /// `None` before the first answer or failure.
    pub connected: Option<bool>,
    /// The time of the last change.
    pub since: Timestamp,
    /// The reason the server does not respond, or its data is not in force.
    pub error: Option<String>,
    /// The number of failures to respond.
    pub failures: u64,
}

impl<T: Clone + PartialEq> Connection<T> {
    /// Returns a connection that has not been made yet.
    pub fn new(wish: Option<T>) -> Self {
        Self {
            wish: watch::Sender::new(wish),
            connected: None,
            since: clock::wall(),
            error: None,
            failures: 0,
        }
    }

    /// Returns the wanted connection, now and after each reload.
    pub fn wishes(&self) -> watch::Receiver<Option<T>> {
        self.wish.subscribe()
    }

    /// Changes the wanted connection, and returns whether it is another one.
    pub fn wish(&mut self, wish: Option<&T>) -> bool {
        let is_other = self.wish.borrow().as_ref() != wish;
        // Files that an unchanged configuration names may have another content.
        self.wish.send_replace(wish.cloned());
        if is_other {
            self.reset();
        }
        is_other
    }

    /// Returns a view of the configured server, if there is one.
    pub fn reported<R>(&self, view: impl FnOnce(&T) -> R) -> Option<R> {
        self.wish.borrow().as_ref().map(view)
    }

    /// Resets the state to that of a new connection.
    pub fn reset(&mut self) {
        (self.connected, self.error) = (None, None);
        self.since = clock::wall();
    }

    /// Records whether the server responds, and returns whether that changed.
    pub fn turn(&mut self, connected: bool, error: Option<String>) -> bool {
        self.error = error;
        let is_new = self.connected != Some(connected);
        if is_new {
            self.connected = Some(connected);
            self.since = clock::wall();
        }
        is_new
    }

    /// Records that the server does not respond, and returns whether that is new.
    pub fn lose(&mut self, error: String) -> bool {
        self.failures += 1;
        self.turn(false, Some(error))
    }
}
