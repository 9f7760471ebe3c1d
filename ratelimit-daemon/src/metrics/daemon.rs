//! Metrics of the daemon itself: configuration, database, timeliness, and resources.

use ratelimit_core::{
    api::{HistoryStatus, TrialOutcome},
    exposition::Exposition,
};

use super::seconds;
use crate::{
    control::{CONFIGURATION, SeenWorkload, Snapshot},
    process::Process,
};

/// Writes them.
pub fn write(to: &mut Exposition, snapshot: &Snapshot) {
    let status = &snapshot.status;
    to.gauge("ratelimit_observe")
        .help("1 if the whole host is a dry run.")
        .value(u8::from(status.observe));
    to.gauge("ratelimit_pass_all")
        .help("1 while pass-all is on.")
        .value(u8::from(status.pass_all.is_some()));
    configuration(to, snapshot);
    database(to, snapshot);
    history(to, &status.history);
    workload(to, &snapshot.beside.workload);
    if let Some(process) = snapshot.beside.process {
        self::process(to, process);
    }
    to.gauge("ratelimit_start_time_seconds")
        .help("Time when the daemon started.")
        .value(seconds(status.started));
    to.info("ratelimit_clock")
        .help("The clock used for limits.")
        .each("clock", [(status.clock.clock.label(), 1)]);
    to.info("ratelimit_build")
        .help("Version of the daemon.")
        .each("version", [(&status.version, 1)]);
}

fn configuration(to: &mut Exposition, snapshot: &Snapshot) {
    let status = &snapshot.status;
    to.gauge("ratelimit_config_last_reload_successful")
        .help("1 if the last reload of the configuration succeeded.")
        .value(u8::from(snapshot.reloads.error.is_none()));
    let fallback = status.troubles.iter().any(|it| it.what == CONFIGURATION);
    let help =
        "1 if the daemon started with the last valid configuration because the files are invalid.";
    to.gauge("ratelimit_config_fallback")
        .help(help)
        .value(u8::from(fallback));
    to.gauge("ratelimit_config_last_reload_success_timestamp_seconds")
        .help("Time when the configuration was last applied.")
        .value(seconds(snapshot.reloads.applied));
    let attempt = status.attempt.as_ref();
    let is_pending = attempt.is_some_and(|it| matches!(it.outcome, TrialOutcome::Pending { .. }));
    to.gauge("ratelimit_trial_pending")
        .help("1 while a configuration is on trial.")
        .value(u8::from(is_pending));
}

fn database(to: &mut Exposition, snapshot: &Snapshot) {
    to.gauge("ratelimit_database_damaged")
        .help("Damaged databases that were moved aside.")
        .value(snapshot.status.database.aside);
    to.histogram(
        "ratelimit_commit_seconds",
        "Time to commit a database transaction.",
        &snapshot.commits.took,
    );
    to.counter("ratelimit_commit_errors")
        .help("Changes that the database refused and that are retried.")
        .value(snapshot.commits.failed);
    let unkept = snapshot.unkept;
    to.gauge("ratelimit_unwritten")
        .help("Changes in force that could not be saved and that a restart may undo.")
        .each(
            "where",
            [("database", unkept.changes), ("files", unkept.files)],
        );
}

fn history(to: &mut Exposition, status: &HistoryStatus) {
    to.gauge("ratelimit_history_bytes")
        .help("Size of the packet history database.")
        .value(status.bytes);
    let help =
        "Time when packet history was last written; 0 if it was not since the daemon started.";
    to.gauge("ratelimit_history_written_timestamp_seconds")
        .help(help)
        .value(status.written.map_or(0.0, seconds));
    to.counter("ratelimit_history_errors")
        .help("Failed writes of packet history, and damage.")
        .value(status.errors);
}

fn workload(to: &mut Exposition, seen: &SeenWorkload) {
    to.gauge("ratelimit_queue_depth")
        .help("Requests waiting for the controller.")
        .value(seen.waiting);
    to.gauge("ratelimit_tick_age_seconds")
        .help("Time since the controller last ran its tasks of each second.")
        .value(seen.tick_age.as_secs_f64());
    let refused = seen.refused.iter();
    to.counter("ratelimit_refused_commands")
        .help("Refused commands, by error code.")
        .each("code", refused.map(|(code, count)| (code.label(), count)));
}

/// The names that client libraries of Prometheus have for them.
fn process(to: &mut Exposition, process: Process) {
    to.gauge("process_resident_memory_bytes")
        .help("Resident memory size in bytes.")
        .value(process.resident_bytes);
    to.gauge("process_virtual_memory_bytes")
        .help("Virtual memory size in bytes.")
        .value(process.virtual_bytes);
    to.gauge("process_open_fds")
        .help("Number of open file descriptors.")
        .value(process.open_fds);
    to.gauge("process_max_fds")
        .help("Maximum number of open file descriptors.")
        .value(process.max_fds);
}
