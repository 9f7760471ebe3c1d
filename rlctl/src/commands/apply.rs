//! `rlctl apply`: tries a configuration, and rolls it back unless it is confirmed in time.

use std::{
    fs, io,
    io::IsTerminal,
    path::{self, Path},
    time::Duration,
};

use jiff::Zoned;
use ratelimit_core::api::{Applied, ApplyRequest, Attempt, Event, Status, TrialOutcome, What};

use super::{confirm, reload};
use crate::{
    client::{Answer, Client},
    clock,
    exit_code::ExitCode,
    failure::Failure,
    keypress::{Key, Keys},
    output::{self, Output, printable},
    phrase,
    report::Report,
};

/// The interval at which the state of the trial is queried.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Puts the file on trial; on a terminal, waits for Enter, unless it answers a program.
pub fn run(
    file: &Path,
    confirm: Duration,
    client: &Client,
    now: &Zoned,
    output: &Output,
) -> Result<Report, Failure> {
    let request = request(file, confirm.as_secs_f64())?;
    let is_asked =
        output.is_for_people() && io::stdin().is_terminal() && io::stderr().is_terminal();
    if !is_asked {
        let answer: Answer<Applied> = client.post("/v1/apply", &request)?;
        let text = sentences(&answer.value, now);
        return Ok(Report::new(answer, text).note("`rlctl confirm` keeps it"));
    }
    let keys = Keys::watch()
        .map_err(|error| Failure::refused(format!("cannot catch signals: {error}")))?;
    let answer: Answer<Applied> = client.post("/v1/apply", &request)?;
    output::say(&sentences(&answer.value, now));
    output::say("press Enter to keep it; Ctrl-C or the timeout restores the previous one");
    wait(&answer.value.attempt, &keys, client)
}

/// Returns the request for a trial of a file.
pub fn request(file: &Path, seconds: f64) -> Result<ApplyRequest, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    let absolute = path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Ok(ApplyRequest {
        file: absolute.display().to_string(),
        text,
        seconds,
    })
}

/// `/etc/ratelimit/new.toml holds until 14:32:07: 2 changes ...`
fn sentences(applied: &Applied, now: &Zoned) -> String {
    let file = printable(&applied.attempt.file);
    let until = match applied.attempt.outcome {
        TrialOutcome::Pending { until } => phrase::moment(until, now),
        TrialOutcome::Confirmed { .. } | TrialOutcome::RolledBack { .. } => "now".to_owned(),
    };
    if applied.changes.is_empty() {
        return format!("applied {file} until {until}: no changes");
    }
    let changes = phrase::count(applied.changes.len(), "change", "changes");
    let lines = reload::lines(&applied.changes);
    format!("applied {file} until {until}: {changes}{lines}")
}

/// Waits for Enter, for a confirmation or rollback from elsewhere, or for the end of the trial.
/// Leaving rolls back.
fn wait(tried: &Attempt, keys: &Keys, client: &Client) -> Result<Report, Failure> {
    loop {
        match keys.wait(ASKED_EVERY) {
            Key::Enter => return confirm::confirm(false, client),
            Key::Left => return take_back(tried, client),
            Key::None => {}
        }
        match settled(tried, client) {
            Ok(Some(end)) => return end,
            // The daemon may be restarting; the trial continues.
            Err(failure) if failure.code == ExitCode::NoDaemon && is_running(tried) => {}
            Ok(None) => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Returns to the configuration before at once.
fn take_back(tried: &Attempt, client: &Client) -> Result<Report, Failure> {
    let Err(mut failure) = client.call::<Attempt>("/v1/rollback") else {
        return Err(not_confirmed(tried));
    };
    // Another session may have been faster.
    if let Ok(Some(end)) = settled(tried, client) {
        return end;
    }
    failure.refused.error = format!(
        "{} was not confirmed and is still active because the rollback failed: {}",
        printable(&tried.file),
        failure.refused.error
    );
    Err(failure.hint("try `rlctl rollback`, or wait until the trial times out"))
}

/// The outcome of a trial; `None` while it is pending.
fn settled(tried: &Attempt, client: &Client) -> Result<Option<Result<Report, Failure>>, Failure> {
    let status: Answer<Status> = client.get("/v1/status")?;
    if let Some(attempt) = &status.value.attempt
        && matches!(attempt.outcome, TrialOutcome::Pending { .. })
    {
        return Ok(None);
    }
    // The status forgets a trial whose result is on disk, so only the event tells the two apart.
    Ok(Some(match last_trial_event(client)? {
        Some(What::TrialConfirmed { .. }) => {
            Ok(Report::from_json(status.json, "confirmed by another user"))
        }
        _ => Err(not_confirmed(tried)),
    }))
}

fn last_trial_event(client: &Client) -> Result<Option<What>, Failure> {
    let events = client.text("/v1/events?only=changes")?;
    let events = events.lines().rev();
    Ok(events
        .filter_map(|line| serde_json::from_str::<Event>(line).ok())
        .map(|event| event.what)
        .find(What::is_trial))
}

/// Whether the time of a trial is not over.
fn is_running(tried: &Attempt) -> bool {
    match tried.outcome {
        TrialOutcome::Pending { until } => clock::local().timestamp() < until,
        TrialOutcome::Confirmed { .. } | TrialOutcome::RolledBack { .. } => false,
    }
}

fn not_confirmed(attempt: &Attempt) -> Failure {
    let file = printable(&attempt.file);
    Failure::refused(format!(
        "{file} was not confirmed: restored the previous configuration"
    ))
    .hint("see `rlctl status`")
}
