//! What the daemon says about itself: events, which go to the log, to followers and to disk, and
//! its health, for `status` and metrics: troubles, and the work of the controller.

pub mod cause;
pub mod event_log;
pub mod journal;
mod log_lines;
pub mod log_throttle;
pub mod progress;
pub mod rows;
pub mod troubles;
pub mod workload;

use std::path::Path;

use ratelimit_core::api::What;

use self::{event_log::EventLog, journal::Journal, troubles::Troubles};

/// Recent events, and current troubles.
pub struct Reports {
    pub journal: Journal,
    pub troubles: Troubles,
    event_log: EventLog,
}

impl Reports {
    /// Opens the reports in a state directory, and continues them.
    pub fn open(directory: &Path) -> Self {
        let (event_log, journal) = EventLog::open(directory);
        Self {
            journal,
            troubles: Troubles::default(),
            event_log,
        }
    }

    /// Records an event that happens now.
    pub fn record(&mut self, what: What) {
        self.journal.record(what);
    }

    /// Records the state of `what`, and reports a change: `None` means that it works.
    pub fn report(&mut self, what: &'static str, error: Option<String>) {
        if let Some(change) = self.troubles.note(what, error) {
            self.record(change);
        }
    }

    /// Saves the events for a restart.
    pub fn keep(&mut self) {
        let events = self.journal.unwritten();
        if !events.is_empty() && self.event_log.write(&events) {
            self.journal.set_written();
        }
    }
}
