//! Failures that do not affect the rest of the daemon. Each is reported once in the log and as an
//! event, and in `status` while it lasts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ratelimit_core::api::{Trouble, What};
use tracing::{error, info, warn};

use super::journal::Journal;
use crate::clock;

/// Pins are missing.
pub const PINS: &str = "pins";
/// The state cannot be written.
pub const STATE: &str = "state";
/// The database file was deleted.
pub const DATABASE: &str = "database";
/// The daemon started with another configuration than that of the files.
pub const CONFIGURATION: &str = "configuration";
/// All users can read a secret.
pub const SECRETS: &str = "secrets";
/// The usage of keys cannot be read or saved.
pub const KEY_USAGE: &str = "key usage";
/// Bans have no route because there are too many.
pub const UPSTREAM: &str = "upstream";
/// The loader was stopped.
pub const LOADER: &str = "loader";
/// With these troubles, enforcement differs from the configuration, or will. They are logged as
/// errors.
const ERRORS: [&str; 5] = [PINS, STATE, DATABASE, CONFIGURATION, LOADER];

/// Current troubles by name.
#[derive(Clone, Debug, Default)]
pub struct Troubles(BTreeMap<&'static str, (String, Timestamp)>);

impl Troubles {
    /// Returns the troubles for reports.
    pub fn views(&self) -> Vec<Trouble> {
        let troubles = self.0.iter();
        troubles
            .map(|(what, (error, since))| Trouble {
                what: (*what).to_owned(),
                error: error.clone(),
                since: *since,
            })
            .collect()
    }

    /// Returns the trouble of this name, if it is current.
    pub fn of(&self, what: &str) -> Option<&str> {
        self.0.get(what).map(|(error, _)| error.as_str())
    }

    /// Records the state of `what`, and reports a change: `None` means that it works.
    pub fn report(&mut self, journal: &mut Journal, what: &'static str, error: Option<String>) {
        let at = clock::wall();
        if !self.note(what, error.clone(), at) {
            return;
        }
        let event = if let Some(error) = error {
            if ERRORS.contains(&what) {
                error!(what, error, "does not work");
            } else {
                warn!(what, error, "does not work");
            }
            What::TroubleBegan {
                what: what.to_owned(),
                error,
            }
        } else {
            info!(what, "works again");
            What::TroubleEnded {
                what: what.to_owned(),
            }
        };
        journal.record(at, event);
    }

    /// Records the state of `what`, and returns whether it changed.
    fn note(&mut self, what: &'static str, error: Option<String>, at: Timestamp) -> bool {
        match error {
            None => self.0.remove(what).is_some(),
            Some(error) if self.of(what) == Some(&error) => false,
            Some(error) => {
                let since = self.0.get(what).map_or(at, |(_, since)| *since);
                self.0.insert(what, (error, since));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_reported_when_it_begins_when_its_reason_changes_and_when_it_ends() {
        let mut troubles = Troubles::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut note = |error: Option<&str>, second| {
            let reported = troubles.note("metrics", error.map(str::to_owned), at(second));
            (
                reported,
                troubles.views().pop().map(|view| (view.error, view.since)),
            )
        };
        let view = |error: &str| Some((error.to_owned(), at(1)));
        assert_eq!(note(None, 0), (false, None));
        assert_eq!(note(Some("taken"), 1), (true, view("taken")));
        assert_eq!(note(Some("taken"), 2), (false, view("taken")));
        assert_eq!(note(Some("gone"), 3), (true, view("gone")));
        assert_eq!(note(None, 4), (true, None));
    }
}
