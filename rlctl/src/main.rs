//! `rlctl`, the command line of `ratelimitd`: turns arguments into requests to the daemon, and its
//! responses into text.
//!
//! The daemon answers with data, which `rlctl` formats. It never touches the datapath, and has no
//! state besides the response.
// A new variant must be handled everywhere.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod arguments;
mod ban_filter;
mod chunks;
mod client;
mod clock;
mod commands;
mod completions;
mod exit_code;
mod failure;
mod find_ssh_peer;
mod input;
mod keypress;
mod lifetime;
mod output;
mod phrase;
mod prefixes;
mod replace_file;
mod report;
mod stream;
mod table;

use std::{env, ffi::OsString, process};

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use self::{
    arguments::{Arguments, Verb},
    client::Client,
    exit_code::ExitCode,
    failure::Failure,
    output::Output,
};

fn main() -> process::ExitCode {
    // Answers a shell that asks after Tab, and ends the program.
    CompleteEnv::with_factory(Arguments::command).complete();
    run(&env::args_os().collect::<Vec<_>>()).into()
}

/// Runs a command line, whose first word is the name of the program, and returns the exit code.
fn run(words: &[OsString]) -> ExitCode {
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => return misunderstood(&error, words),
    };
    anstream::ColorChoice::from(arguments.color).write_global();
    // A verb with an old name takes all words after it, also this flag.
    let output = Output::new(arguments.json || asks_for_json(words));
    let client = Client::new(arguments.socket);
    let now = clock::local();
    let answer = commands::run(
        arguments.verb.unwrap_or(Verb::Status { maps: false }),
        &client,
        &now,
        &output,
    );
    let announced = client.announced();
    if let Some(status) = announced.pass_all {
        output.warning(&commands::pass_all::warning(&status, &now));
    }
    for unenforced in announced.unenforced {
        output.warning(&commands::status::not_enforced(&unenforced, &now));
    }
    for error in announced.unkept {
        output.warning(&format!(
            "changes could not be saved, and a restart of ratelimitd may undo them; retrying every \
             second: {error}"
        ));
    }
    match answer {
        Ok(report) => output.report(&report),
        Err(failure) => output.failure(&failure),
    }
}

fn asks_for_json(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "--json")
}

/// Answers a command line that is not understood, and the ones that ask for help or the version.
fn misunderstood(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let json = asks_for_json(words);
    if json && error.use_stderr() {
        return Output::new(json).failure(&Failure::from_clap(error));
    }
    // If stdout or stderr is closed, there is no place for an error.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::Usage
    } else {
        ExitCode::Done
    }
}
