//! `rlctl detach`: detaches the program from all interfaces.

use ratelimit_core::{api::Detached, config::Paths};

use crate::{
    client::{ABSENT, Answer, Client},
    failure::Failure,
    output::printable,
    phrase,
    report::Report,
};

/// If no daemon answers, says that limits and bans are still enforced, because the kernel needs no
/// daemon.
pub fn without_daemon(failure: Failure, verb: &str) -> Failure {
    // A daemon that is stuck still holds the links, so removing pins would not detach.
    let hint = failure.refused.hint.as_deref().unwrap_or_default();
    if !hint.starts_with(ABSENT) {
        return failure;
    }
    let pins = Paths::default().pins;
    failure.hint(format!(
        "the kernel enforces without a daemon: start it (systemctl start ratelimitd) and repeat \
         `{verb}`, or detach manually: rm -r {} (or the directory in `pins` of [paths])",
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
    let text = format!("detached from {interfaces}: limits and bans no longer apply there");
    Ok(Report::new(answer, text))
}
