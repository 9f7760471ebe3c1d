//! `rlctl detach`: the program is taken off the interfaces.

use ratelimit_core::api::Detached;

use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::printable,
    phrase,
    report::Report,
};

/// Has the daemon take the program off all interfaces.
pub fn run(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Detached> = client.call("/v1/detach")?;
    if answer.value.interfaces.is_empty() {
        return Ok(Report::new(answer, "").note("no interface was attached"));
    }
    let interfaces = printable(&phrase::and(&answer.value.interfaces));
    let text = format!("detached from {interfaces}: nothing is limited or banned there any more");
    Ok(Report::new(answer, text))
}
