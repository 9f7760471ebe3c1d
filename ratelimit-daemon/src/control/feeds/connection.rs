//! A connection to somebody that the configuration names, as it was last seen.

use crate::clock;
use jiff::Timestamp;
use tokio::sync::watch;

/// Whom to follow, and whether they answer.
#[derive(Debug)]
pub struct Connection<T> {
    wish: watch::Sender<Option<T>>,
    /// `None` before the first answer or failure.
    pub connected: Option<bool>,
    /// Since when that is so.
    pub since: Timestamp,
    /// Why they do not answer, or what they say is not in force.
    pub error: Option<String>,
    /// How often they did not answer.
    pub failures: u64,
}

impl<T: Clone + PartialEq> Connection<T> {
    /// A connection that is yet to be made.
    pub fn new(wish: Option<T>) -> Self {
        Self {
            wish: watch::Sender::new(wish),
            connected: None,
            since: clock::wall(),
            error: None,
            failures: 0,
        }
    }

    /// Whom to follow, now and after each reload.
    pub fn wishes(&self) -> watch::Receiver<Option<T>> {
        self.wish.subscribe()
    }

    /// Follows another one from here on, and tells whether that is another one.
    pub fn wish(&mut self, wish: Option<&T>) -> bool {
        let is_other = self.wish.send_if_modified(|before| {
            let is_other = before.as_ref() != wish;
            if is_other {
                *before = wish.cloned();
            }
            is_other
        });
        if is_other {
            self.reset();
        }
        is_other
    }

    /// What is reported of whom is followed; `None` where the configuration names nobody.
    pub fn reported<R>(&self, view: impl FnOnce(&T) -> R) -> Option<R> {
        self.wish.borrow().as_ref().map(view)
    }

    /// Forgets how it was.
    pub fn reset(&mut self) {
        (self.connected, self.error) = (None, None);
        self.since = clock::wall();
    }

    /// Notes whether they answer, and tells whether that is new.
    pub fn turn(&mut self, connected: bool, error: Option<String>) -> bool {
        self.error = error;
        let is_new = self.connected != Some(connected);
        if is_new {
            self.connected = Some(connected);
            self.since = clock::wall();
        }
        is_new
    }

    /// Notes that they do not answer, and tells whether that is new.
    pub fn lose(&mut self, error: String) -> bool {
        self.failures += 1;
        self.turn(false, Some(error))
    }
}
