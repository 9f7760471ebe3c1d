//! `rlctl keys`: users, tokens and URLs that applications and proxies ask about.

use std::time::Duration;

use clap::Args;
use ratelimit_core::{
    api::{BusyKey, KeyLimit, KeyRequest, KeyReset, KeyUsage},
    quantity,
};

use super::renamed;
use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::printable,
    report::Report,
    table::Table,
};

/// `keys SPACE [--rows N]`, `keys SPACE KEY [--reset]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl keys users
  rlctl keys users --rows 100 --json
  rlctl keys users alice
  rlctl keys users alice --reset

Without a key it shows the keys that are closest to a limit. Looking at a key charges nothing.")]
pub struct KeysArguments {
    /// Name of the key space: that of `[keys.NAME]`
    pub space: String,
    /// The key, as the application or proxy names it, with \n between its parts and \\ for a
    /// backslash
    pub key: Option<String>,
    /// Number of keys
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=10_000),
    )]
    pub rows: u32,
    /// Reset the usage of the key
    #[arg(long, requires = "key")]
    pub reset: bool,
    /// The key after `top`, `check` or `reset`, which were verbs.
    #[arg(hide = true)]
    pub old_key: Option<String>,
}

/// Shows the busiest keys of a space or one key, or resets that.
pub fn run(arguments: &KeysArguments, client: &Client) -> Result<Report, Failure> {
    let KeysArguments {
        space,
        key,
        rows,
        reset: is_reset,
        old_key,
    } = arguments;
    if let (Some(space), Some(key)) = (key, old_key) {
        let end = if arguments.space == "reset" {
            " --reset"
        } else {
            ""
        };
        let old = format!("keys {}", arguments.space);
        return Err(renamed(&old, &format!("keys {space} {key}{end}")));
    }
    match key {
        None => top(space, *rows, client),
        Some(key) if *is_reset => reset(&request(space, key), client),
        Some(key) => check(&request(space, key), client).map_err(|failure| {
            if space == "top" {
                failure.hint(format!("the busiest keys of {key}: `rlctl keys {key}`"))
            } else {
                failure
            }
        }),
    }
}

fn top(space: &str, rows: u32, client: &Client) -> Result<Report, Failure> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if space.is_empty() || !space.chars().all(is_name) {
        let space = printable(space);
        return Err(Failure::usage(format!(
            "`{space}` is not a valid name of a key space"
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
        table.row([escaped(&key.key), limit, used, share, clears]);
    }
    Ok(Report::new(answer, table.to_string()))
}

fn check(request: &KeyRequest, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<KeyUsage> = client.post("/v1/keys/check", request)?;
    let mut table = Table::new("LIMIT | >USED | >% | CLEARS IN");
    for limit in &answer.value.limits {
        table.row(row(limit));
    }
    Ok(Report::new(answer, table.to_string()))
}

fn reset(request: &KeyRequest, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<KeyReset> = client.delete("/v1/keys", request)?;
    let (space, key) = (printable(&request.space), escaped(&request.key));
    let text = if answer.value.reset {
        format!("reset the usage of {key} in {space}")
    } else {
        format!("{key} had no usage in {space}")
    };
    Ok(Report::new(answer, text))
}

fn request(space: &str, key: &str) -> KeyRequest {
    KeyRequest {
        space: space.to_owned(),
        key: unescaped(key),
    }
}

/// A key of several parts has line breaks between them.
fn escaped(key: &str) -> String {
    printable(&key.replace('\\', r"\\").replace('\n', r"\n"))
}

fn unescaped(key: &str) -> String {
    let parts = key.split(r"\\").map(|part| part.replace(r"\n", "\n"));
    parts.collect::<Vec<_>>().join("\\")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_is_shown_of_it() {
        for key in [
            "alice",
            "client 192.0.2.1\n/login",
            r"a\nb",
            "a\\\nb",
            r"\\",
        ] {
            assert_eq!(unescaped(&escaped(key)), key);
        }
        assert_eq!(escaped("a\nb"), r"a\nb");
    }
}
