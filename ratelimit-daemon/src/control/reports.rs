//! The log, events and `status`: the journal, troubles, progress, and how often the log repeats
//! itself.

pub mod cause;
pub mod change_log;
pub mod event_log;
pub mod journal;
pub mod log_throttle;
pub mod progress;
pub mod rows;
pub mod troubles;
pub mod workload;

use std::path::Path;

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

    /// Records the state of `what`, and reports a change: `None` means that it works.
    pub fn report(&mut self, what: &'static str, error: Option<String>) {
        self.troubles.report(&mut self.journal, what, error);
    }

    /// Saves the events for a restart.
    pub fn keep(&mut self) {
        let events = self.journal.unwritten();
        if !events.is_empty() && self.event_log.write(&events) {
            self.journal.set_written();
        }
    }
}
