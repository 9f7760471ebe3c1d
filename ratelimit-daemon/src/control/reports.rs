//! What the log, events and `status` say: the journal, troubles, progress, and how often the log repeats itself.

pub mod busy;
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

/// What happened lately, and what does not work.
pub struct Reports {
    pub journal: Journal,
    pub troubles: Troubles,
    event_log: EventLog,
}

impl Reports {
    /// Those that continue what a state directory has.
    pub fn open(directory: &Path) -> Self {
        let (event_log, journal) = EventLog::open(directory);
        Self {
            journal,
            troubles: Troubles::default(),
            event_log,
        }
    }

    /// Takes notice of how something stands, and tells where that is different: `None` when it works.
    pub fn report(&mut self, what: &'static str, error: Option<String>) {
        self.troubles.report(&mut self.journal, what, error);
    }

    /// Keeps what was recorded over a restart.
    pub fn keep(&mut self) {
        let events = self.journal.unwritten();
        if !events.is_empty() && self.event_log.write(&events) {
            self.journal.set_written();
        }
    }
}
