//! `rlctl keys`: users, tokens and URLs that applications and proxies ask about.

use std::time::Duration;

use ratelimit_core::{
    api::{BusyKey, KeyLimit, KeyRequest, KeyReset, KeyUsage},
    quantity,
};

use crate::{
    client::{Answer, Client},
    failure::Failure,
    key_arguments::{KeyArguments, KeysVerb},
    output::printable,
    report::Report,
    table::Table,
};

/// Runs one of the verbs.
pub fn run(verb: &KeysVerb, client: &Client) -> Result<Report, Failure> {
    match verb {
        KeysVerb::Top { space, rows } => top(space, *rows, client),
        KeysVerb::Check(arguments) => check(arguments, client),
        KeysVerb::Reset(arguments) => reset(arguments, client),
    }
}

fn top(space: &str, rows: u32, client: &Client) -> Result<Report, Failure> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if space.is_empty() || !space.chars().all(is_name) {
        let space = printable(space);
        return Err(Failure::usage(format!(
            "`{space}` is not a name of a key space"
        )));
    }
    let path = format!("/v1/keys/{space}?count={rows}");
    let answer: Answer<Vec<BusyKey>> = client.get(&path)?;
    if answer.value.is_empty() {
        return Ok(Report::new(answer, "").note("no busy keys"));
    }
    let mut table = Table::new("KEY | LIMIT | >USED | >% | CLEARS IN");
    for key in &answer.value {
        let [limit, rest @ ..] = row(&key.fullest);
        let [used, share, clears] = rest;
        table.row([printable(&key.key), limit, used, share, clears]);
    }
    Ok(Report::new(answer, table.to_string()))
}

fn check(arguments: &KeyArguments, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<KeyUsage> = client.post("/v1/keys/check", &request(arguments))?;
    let mut table = Table::new("LIMIT | >USED | >% | CLEARS IN");
    for limit in &answer.value.limits {
        table.row(row(limit));
    }
    Ok(Report::new(answer, table.to_string()))
}

fn reset(arguments: &KeyArguments, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<KeyReset> = client.delete("/v1/keys", &request(arguments))?;
    let (space, key) = (printable(&arguments.space), printable(&arguments.key));
    let text = if answer.value.reset {
        format!("reset the usage of {key} in {space}")
    } else {
        format!("{key} had no usage in {space}")
    };
    Ok(Report::new(answer, text))
}

fn request(arguments: &KeyArguments) -> KeyRequest {
    KeyRequest {
        space: arguments.space.clone(),
        key: arguments.key.clone(),
    }
}

fn row(limit: &KeyLimit) -> [String; 4] {
    let share = limit.used * 100 / limit.capacity.max(1);
    let clears_in = Duration::try_from_secs_f64(limit.clears_in_seconds.ceil());
    let clears_in = clears_in.unwrap_or_default();
    [
        limit.limit.clone(),
        limit.used.to_string(),
        share.to_string(),
        quantity::duration(clears_in),
    ]
}
