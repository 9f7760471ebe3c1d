//! `rlctl confirm` and `rlctl rollback`: what happens to a configuration on trial.

mod save;

use std::{fs, path::Path};

use ratelimit_core::api::{Attempt, Status, TrialOutcome};

use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::printable,
    report::Report,
};

/// Keeps the configuration. Also writes the file of the daemon if requested, or if the file is in
/// the same directory.
pub fn confirm(save: bool, client: &Client) -> Result<Report, Failure> {
    let answer = match client.call("/v1/confirm") {
        Err(failure) if save => confirmed_before(client).ok_or(failure)?,
        answer => answer?,
    };
    let attempt = answer.value.clone();
    let (file, main) = (printable(&attempt.file), printable(&attempt.main));
    let report = Report::new(answer, format!("confirmed {file}"));
    if attempt.installed {
        return Ok(report);
    }
    if !save && !are_neighbours(&attempt) {
        return Ok(report.note(format!(
            "{main} differs; `rlctl confirm --save` writes {file} there"
        )));
    }
    match save::over_main(&attempt, client) {
        Ok(before) => Ok(Report {
            text: format!(
                "confirmed {file} and saved it as {main}; the previous file is {}",
                printable(&before.display().to_string())
            ),
            ..report
        }),
        Err(failure) => {
            let mut report = report;
            let error = format!("cannot write {main}: {}", failure.refused.error);
            let hint = failure.refused.hint;
            let hint = hint.unwrap_or_else(|| format!("cp {file} {main}"));
            report.failure = Some(Failure::refused(error).hint(hint));
            Ok(report)
        }
    }
}

/// Returns an attempt that was confirmed earlier but never saved.
fn confirmed_before(client: &Client) -> Option<Answer<Attempt>> {
    let status: Answer<Status> = client.get("/v1/status").ok()?;
    let attempt = status.value.attempt?;
    let is_confirmed = matches!(attempt.outcome, TrialOutcome::Confirmed { .. });
    let json = status.json.get("attempt")?.clone();
    is_confirmed.then_some(Answer {
        value: attempt,
        json,
    })
}

/// Whether what was tried is beside the file of the daemon.
fn are_neighbours(attempt: &Attempt) -> bool {
    let [file, main] =
        [&attempt.file, &attempt.main].map(|path| fs::canonicalize(Path::new(path).parent()?).ok());
    file.is_some() && file == main
}

/// Takes it back.
pub fn roll_back(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Attempt> = client.call("/v1/rollback")?;
    let (file, main) = (printable(&answer.value.file), printable(&answer.value.main));
    let installed = answer.value.installed;
    let text = format!("rolled back {file}: restored the previous configuration");
    let report = Report::new(answer, text);
    if !installed {
        return Ok(report);
    }
    Ok(report.note(format!(
        "{main} still has the rejected configuration; it is ignored, also after a restart, until \
         you change it"
    )))
}
