//! `rlctl pass-all`: everything passes, or pass-all is off: limits and bans are enforced.

use clap::{Args, ValueEnum};
use jiff::Zoned;
use ratelimit_core::api::{PassAllRequest, PassAllStatus};

use crate::{
    client::{Answer, Client},
    commands::detach::without_daemon,
    failure::Failure,
    lifetime::LifetimeArgument,
    phrase,
    report::Report,
};

/// `pass-all on [--for TIME]`, `pass-all off`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl pass-all on
  rlctl pass-all on --for 10m
  rlctl pass-all off

Every command warns while pass-all is on.")]
pub struct PassAllArguments {
    /// Whether all packets pass
    pub state: Switch,
    #[command(flatten)]
    pub lifetime: LifetimeArgument,
}

/// On or off.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Switch {
    /// Suspend all limits and bans
    On,
    /// Enforce bans and limits again
    Off,
}

/// Turns pass-all on or off.
pub fn run(arguments: &PassAllArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let request = PassAllRequest {
        on: arguments.state == Switch::On,
        seconds: arguments.lifetime.lifetime.seconds(),
    };
    if !request.on && request.seconds.is_some() {
        return Err(Failure::usage("--for belongs to `rlctl pass-all on`"));
    }
    let verb = if request.on {
        "rlctl pass-all on"
    } else {
        "rlctl pass-all off"
    };
    let answer: Answer<Option<PassAllStatus>> = client
        .post("/v1/pass-all", &request)
        .map_err(|failure| without_daemon(failure, verb))?;
    let text = match &answer.value {
        Some(status) if request.on => format!(
            "pass-all is on {}: limits and bans are not enforced",
            end(status, now)
        ),
        Some(_) => "pass-all is off: limits and bans are enforced".to_owned(),
        None => "pass-all was already off".to_owned(),
    };
    Ok(Report::new(answer, text))
}

/// `pass-all is on since 14:22:07 by root: ...`, for people who may not know.
pub fn warning(status: &PassAllStatus, now: &Zoned) -> String {
    format!(
        "pass-all is on since {} (by {}, {}): nothing is dropped; `rlctl pass-all off` ends it",
        phrase::moment(status.since, now),
        status.author,
        end(status, now)
    )
}

fn end(status: &PassAllStatus, now: &Zoned) -> String {
    match status.until {
        Some(until) => format!("until {}", phrase::moment(until, now)),
        None => "until turned off".to_owned(),
    }
}
