//! `rlctl allow add` and `rlctl allow rm`: who is exempt from bans and limits, until when.

use jiff::Zoned;
use ratelimit_core::api::AllowRequest;

use crate::{
    arguments::{AllowAddArguments, PrefixesArguments},
    chunks,
    client::Client,
    commands::{ban, removal::Removal},
    failure::Failure,
    phrase, prefixes,
    report::Report,
};

/// Puts the prefixes on the allow list.
pub fn add(arguments: &AllowAddArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let prefixes = prefixes::read(&arguments.prefixes.prefixes)?;
    let answer = chunks::send(&prefixes, |prefixes| {
        let request = AllowRequest {
            prefixes,
            seconds: arguments.term.seconds(),
            reason: arguments.reason.clone(),
        };
        client.post("/v1/allows", &request)
    })?;
    let whom = phrase::whom(&prefixes);
    let term = phrase::term(arguments.term, answer.value.until, now);
    let novelty = ban::novelty(prefixes.len(), &answer.value);
    let mut report = Report::new(answer, format!("allowed {whom} {term}{novelty}"));
    report.notes.extend(chunks::note(&prefixes));
    Ok(report)
}

/// Takes the prefixes off the allow list.
pub fn rm(arguments: &PrefixesArguments, client: &Client) -> Result<Report, Failure> {
    let removal = Removal {
        path: "/v1/allows",
        done: |whom| format!("took {whom} off the allow list"),
        absent: "is not on the allow list",
        absent_many: "are not on the allow list",
    };
    removal.run(&arguments.prefixes, client)
}
