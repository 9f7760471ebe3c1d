//! `rlctl unban`: whose ban ends now.

use ratelimit_core::api::ProgramUnbanRequest;

use crate::{
    arguments::UnbanArguments, chunks, client::Client, commands::removal::Removal,
    failure::Failure, phrase, prefixes, report::Report,
};

/// Takes the bans of the prefixes away, or those that a program has of them.
pub fn run(arguments: &UnbanArguments, client: &Client) -> Result<Report, Failure> {
    if let Some(program) = &arguments.program {
        return by_program(program, &arguments.prefixes.prefixes, client);
    }
    let removal = Removal {
        path: "/v1/bans",
        done: |whom| format!("unbanned {whom}"),
        absent: "is not banned",
        absent_many: "are not banned",
    };
    removal.run(&arguments.prefixes, client)
}

/// A ban that has ended by itself is what the program wants.
fn by_program(program: &str, texts: &[String], client: &Client) -> Result<Report, Failure> {
    let prefixes = prefixes::read(texts)?;
    let answer = chunks::send(&prefixes, |prefixes| {
        let request = ProgramUnbanRequest {
            program: program.to_owned(),
            prefixes,
        };
        client.delete("/v1/bans/program", &request)
    })?;
    let ended = phrase::count(answer.value.removed, "ban", "bans");
    let whom = phrase::whom(&prefixes);
    let text = format!("ended {ended} of {whom} by {program}");
    let mut report = Report::new(answer, text);
    report.notes.extend(chunks::note(&prefixes));
    Ok(report)
}
