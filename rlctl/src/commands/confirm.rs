//! `rlctl confirm` and `rlctl rollback`: what becomes of a configuration on trial.

use ratelimit_core::api::Attempt;

use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::printable,
    report::Report,
};

/// Keeps it.
pub fn confirm(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Attempt> = client.call("/v1/confirm")?;
    let (file, main) = (printable(&answer.value.file), printable(&answer.value.main));
    let installed = answer.value.installed;
    let report = Report::new(answer, format!("confirmed {file}: it stays"));
    if installed {
        return Ok(report);
    }
    Ok(report.note(format!(
        "{main} says something else, and `rlctl reload` would read that: cp {file} {main}"
    )))
}

/// Takes it back.
pub fn roll_back(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Attempt> = client.call("/v1/rollback")?;
    let (file, main) = (printable(&answer.value.file), printable(&answer.value.main));
    let installed = answer.value.installed;
    let text = format!("took {file} back: the configuration before holds again");
    let report = Report::new(answer, text);
    if !installed {
        return Ok(report);
    }
    Ok(report.note(format!(
        "{main} still says what was tried: the daemon holds on to the one before, also when it starts again, until you write another"
    )))
}
