//! Failures that do not affect the rest of the daemon. Each is reported once in the log and as an
//! event, and in `status` while it lasts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ratelimit_core::api::{Trouble, What};

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
/// Connections are not limited.
pub const CONNECTIONS: &str = "connections";
/// The loader was stopped.
pub const LOADER: &str = "loader";

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

    /// Records the state of `what`, where `None` means that it works. Returns a change.
    pub fn note(&mut self, what: &'static str, error: Option<String>) -> Option<What> {
        let name = what.to_owned();
        let Some(error) = error else {
            return self
                .0
                .remove(what)
                .map(|_| What::TroubleEnded { what: name });
        };
        if self.of(what) == Some(&error) {
            return None;
        }
        let since = self
            .0
            .get(what)
            .map_or_else(clock::wall, |(_, since)| *since);
        self.0.insert(what, (error.clone(), since));
        Some(What::TroubleBegan { what: name, error })
    }
}

/// Returns whether enforcement differs from the configuration because of this trouble, or will.
pub fn is_of_enforcement(what: &str) -> bool {
    [PINS, STATE, DATABASE, CONFIGURATION, CONNECTIONS, LOADER].contains(&what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_reported_when_it_begins_when_its_reason_changes_and_when_it_ends() {
        let mut troubles = Troubles::default();
        let mut note = |error: Option<&str>| {
            let reported = troubles.note("metrics", error.map(str::to_owned)).is_some();
            (
                reported,
                troubles.views().pop().map(|view| (view.error, view.since)),
            )
        };
        assert_eq!(note(None), (false, None));
        let (reported, view) = note(Some("taken"));
        let (_, since) = view.unwrap();
        assert!(reported);
        let view = |error: &str| Some((error.to_owned(), since));
        assert_eq!(note(Some("taken")), (false, view("taken")));
        assert_eq!(note(Some("gone")), (true, view("gone")));
        assert_eq!(note(None), (true, None));
    }
}
