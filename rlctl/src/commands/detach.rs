//! `rlctl detach`: the program is taken off the interfaces.

use ratelimit_core::{api::Detached, config::Paths};

use crate::{
    client::{ABSENT, Answer, Client},
    failure::Failure,
    output::printable,
    phrase,
    report::Report,
};

/// Says how everything passes where no daemon can be asked: the kernel goes on enforcing without one.
pub fn without_daemon(failure: Failure, verb: &str) -> Failure {
    // One that is there and does not answer holds what removed pins would give up.
    let hint = failure.refused.hint.as_deref().unwrap_or_default();
    if !hint.starts_with(ABSENT) {
        return failure;
    }
    let pins = Paths::default().pins;
    failure.hint(format!(
        "the kernel enforces without a daemon: start one (systemctl start ratelimitd) and run `{verb}` again, or take the program off all interfaces yourself: rm -r {} (`pins` of [paths] may name another directory)",
        pins.display()
    ))
}

/// Has the daemon take the program off all interfaces.
pub fn run(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Detached> = client
        .call("/v1/detach")
        .map_err(|failure| without_daemon(failure, "rlctl detach"))?;
    if answer.value.interfaces.is_empty() {
        return Ok(Report::new(answer, "").note("no interface was attached"));
    }
    let interfaces = printable(&phrase::and(&answer.value.interfaces));
    let text = format!("detached from {interfaces}: nothing is limited or banned there any more");
    Ok(Report::new(answer, text))
}
