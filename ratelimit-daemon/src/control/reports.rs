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
