//! `rlctl apply`: a configuration holds for a time, and is gone again unless somebody says that it may stay.

use std::{
    fs, io,
    io::IsTerminal,
    path::{self, Path},
    time::Duration,
};

use jiff::Zoned;
use ratelimit_core::api::{Applied, ApplyRequest, Attempt, Outcome, Status};

use super::{confirm, reload};
use crate::{
    client::{Answer, Client},
    failure::Failure,
    keypress::{self, Key},
    output::{self, Output, printable},
    phrase,
    report::Report,
};

/// How often it is asked whether somebody else has said something.
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
    let answer: Answer<Applied> = client.post("/v1/apply", &request)?;
    let text = sentences(&answer.value, now);
    let is_asked =
        output.is_for_people() && io::stdin().is_terminal() && io::stderr().is_terminal();
    if !is_asked {
        return Ok(Report::new(answer, text).note("`rlctl confirm` keeps it"));
    }
    output::say(&text);
    output::say("press Enter to keep it, or wait");
    wait(&answer.value.attempt, client)
}

/// What asks for a trial of a file.
pub fn request(file: &Path, seconds: f64) -> Result<ApplyRequest, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", file.display())))?;
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
        Outcome::Pending { until } => phrase::moment(until, now),
        Outcome::Confirmed { .. } | Outcome::RolledBack { .. } => "now".to_owned(),
    };
    if applied.changes.is_empty() {
        return format!("{file} holds until {until}: nothing is different");
    }
    let changes = phrase::count(applied.changes.len(), "change", "changes");
    let lines = reload::lines(&applied.changes);
    format!("{file} holds until {until}: {changes}{lines}")
}

/// Waits for Enter, for somebody who says something elsewhere, and for the end.
fn wait(tried: &Attempt, client: &Client) -> Result<Report, Failure> {
    loop {
        match keypress::wait(ASKED_EVERY) {
            Key::Enter => return confirm::confirm(client),
            // Nobody can press a key any more; the daemon goes on counting.
            Key::Closed => return Err(not_confirmed(tried)),
            Key::None => {}
        }
        let status: Answer<Status> = client.get("/v1/status")?;
        match status.value.attempt.as_ref().map(|attempt| attempt.outcome) {
            Some(Outcome::Pending { .. }) => {}
            Some(Outcome::Confirmed { .. }) => {
                return Ok(Report::from_json(status.json, "somebody confirmed it"));
            }
            // What was rolled back and never was in the file of the daemon is no attempt any more; nor is what was confirmed
            // and is there.
            None if status.value.config_files.first() == Some(&tried.file) => {
                return Ok(Report::from_json(status.json, "somebody confirmed it"));
            }
            Some(Outcome::RolledBack { .. }) | None => return Err(not_confirmed(tried)),
        }
    }
}

fn not_confirmed(attempt: &Attempt) -> Failure {
    let file = printable(&attempt.file);
    Failure::refused(format!(
        "{file} was not confirmed: the configuration before holds again"
    ))
    .hint("`rlctl status` says what holds")
}
