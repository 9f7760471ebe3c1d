//! `rlctl unban`: whose ban ends now.

use clap::{ArgGroup, Args};
use ratelimit_core::{
    api::{Changed, ProgramUnbanRequest, UnbanMatchingRequest},
    prefix::Prefix,
};

use crate::{
    ban_filter::BanFilterArguments,
    chunks,
    client::{Answer, Client},
    commands::removal::{self, Removal},
    completions,
    failure::Failure,
    phrase,
    prefixes::{self, Named, NetworkArgument},
    report::Report,
};

/// `unban PREFIX... [--program NAME]`, or `unban` of those that a filter has
#[derive(Args, Debug)]
#[command(
    group(
        ArgGroup::new("whom").required(true).multiple(true).args(
            ["prefixes", "all", "within", "origin", "reason_part", "ending"]
        )
    )
)]
pub struct UnbanArguments {
    /// Addresses and prefixes. `@FILE` reads them from a file, `-` from stdin
    ///
    /// 203.0.113.7, 203.0.113.0/24, 203.0.113.0/255.255.255.0 or `2001:db8::/48`. Files have one
    /// per line, with comments after `#`. If one is invalid, nothing changes.
    #[arg(
        value_name = "PREFIX",
        conflicts_with_all = ["all", "within", "origin", "reason_part", "ending"],
        add = completions::banned(),
    )]
    pub prefixes: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgument,
    /// Remove only the bans of this program
    #[arg(long, value_name = "NAME", requires = "prefixes")]
    pub program: Option<String>,
    /// Remove all bans
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub filter: BanFilterArguments,
}

/// Takes the bans of the prefixes away, or those that a program has of them.
pub fn run(arguments: &UnbanArguments, client: &Client) -> Result<Report, Failure> {
    let prefixes = &arguments.prefixes;
    if let Some(program) = &arguments.program {
        return by_program(program, arguments, client);
    }
    if prefixes.is_empty() {
        return matching(arguments, client);
    }
    let removal = Removal {
        path: "/v1/bans",
        of_sources: true,
        cluster: false,
        done: |whom| format!("unbanned {whom}"),
        absent: "is not banned",
        absent_many: "are not banned",
    };
    removal.run(prefixes, arguments.network.host_bits(), client)
}

/// Ends the bans that a filter has.
fn matching(arguments: &UnbanArguments, client: &Client) -> Result<Report, Failure> {
    let request = UnbanMatchingRequest {
        filter: arguments.filter.filter()?,
        all: arguments.all,
    };
    let answer: Answer<Changed> = client.delete("/v1/bans/matching", &request)?;
    let Changed { removed, held, .. } = answer.value.clone();
    let ended = phrase::count(removed, "ban", "bans");
    let unfolded: Vec<String> = phrase::unfolded(&answer.value).collect();
    let mut report = Report::new(answer, format!("removed {ended}")).notes(unfolded);
    report.notes.extend(removal::still_banned(&held));
    if removed == 0 {
        report.text = String::new();
        report.failure = Some(if arguments.all {
            Failure::refused("no bans")
                .hint("bans of lists are not affected; remove a list with `rlctl import --remove`")
        } else {
            Failure::refused("no matching bans")
                .hint("see `rlctl list bans`; bans of lists are not affected")
        });
    }
    Ok(report)
}

/// A ban that has already ended counts as success for the program.
fn by_program(
    program: &str,
    arguments: &UnbanArguments,
    client: &Client,
) -> Result<Report, Failure> {
    let host_bits = arguments.network.host_bits();
    let named = prefixes::read_named(&arguments.prefixes, host_bits)?;
    let answer = chunks::send(&named, |named| {
        let (prefixes, sources) = Named::split(&named);
        let request = ProgramUnbanRequest {
            program: program.to_owned(),
            prefixes,
            sources,
        };
        client.delete("/v1/bans/program", &request)
    })?;
    let ended = phrase::count(answer.value.removed, "ban", "bans");
    let prefixes: Vec<Prefix> = named.iter().map(|named| named.prefix).collect();
    let whom = phrase::whom(&prefixes);
    let text = format!("removed {ended} of {whom} by {program}");
    let unfolded: Vec<String> = phrase::unfolded(&answer.value).collect();
    Ok(Report::new(answer, text)
        .notes(chunks::note(&prefixes))
        .notes(unfolded))
}
