//! What a shell proposes after Tab: verbs and options from the command line as it is defined, names from the daemon.
//!
//! A shell asks by the variable `COMPLETE`, so that the script it reads at its start never gets older than the program.

use std::{env, ffi::OsStr, time::Duration};

use clap::CommandFactory;
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate},
};
use ratelimit_core::api::ListView;

use crate::{
    arguments::{self, Arguments},
    client::Client,
};

/// How long a person waits after Tab.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers a shell, and ends the program, where it is a shell that asks.
pub fn answer() {
    CompleteEnv::with_factory(Arguments::command).complete();
}

/// Proposes the names of lists.
pub fn lists() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| names(typed, false))
}

/// Proposes the names of lists that no file has: those that can be removed.
pub fn imported_lists() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| names(typed, true))
}

/// The names that begin as typed; none where no daemon answers, as a shell has no place for an error.
fn names(typed: &OsStr, imported: bool) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else {
        return Vec::new();
    };
    let socket = env::var_os("RATELIMIT_SOCKET").unwrap_or_else(|| arguments::SOCKET.into());
    let client = Client::new(socket.into()).within(PATIENCE);
    let Ok(answer) = client.get::<Vec<ListView>>("/v1/lists") else {
        return Vec::new();
    };
    let lists = answer.value.into_iter();
    lists
        .filter(|list| !imported || list.file.is_none())
        .map(|list| list.name.to_string())
        .filter(|name| name.starts_with(typed))
        .map(CompletionCandidate::new)
        .collect()
}
