//! One file per verb: it turns arguments into a request, and the response into a report.
//!
//! A new verb has a variant in `arguments.rs`, its file here, and its counterpart in the daemon:
//! `http/control_api.rs` and a file in `control/commands` or `control/queries`
//! (docs/architecture/recipes.md).

pub mod allow;
pub mod apply;
pub mod ban;
pub mod capture;
pub mod check;
pub mod cluster;
pub mod config;
pub mod confirm;
pub mod demo;
pub mod detach;
pub mod doctor;
pub mod events;
pub mod export;
pub mod fetch;
pub mod import;
pub mod keys;
pub mod limit;
pub mod list;
pub mod lists;
pub mod pass_all;
pub mod protect;
pub mod protected;
pub mod reload;
pub mod removal;
pub mod simulate;
pub mod stats;
pub mod status;
pub mod suggest;
pub mod support;
pub mod top;
pub mod unban;

use jiff::Zoned;
use ratelimit_core::api::ReloadRequest;

use self::{
    allow::AllowVerb,
    config::ConfigVerb,
    limit::LimitVerb,
    list::{ListArguments, ListKind},
};
use crate::{arguments::Verb, client::Client, failure::Failure, output::Output, report::Report};

/// Runs a verb. Times are reported relative to `now`.
pub fn run(verb: Verb, client: &Client, now: &Zoned, output: &Output) -> Result<Report, Failure> {
    match verb {
        Verb::Status { maps } => status::run(maps, client, now),
        Verb::Ban(arguments) => ban::run(&arguments, client, now),
        Verb::Unban(arguments) => unban::run(&arguments, client),
        Verb::Allow(AllowVerb::Add(arguments)) => allow::add(&arguments, client, now),
        Verb::Allow(AllowVerb::Rm(arguments)) => allow::rm(&arguments, client),
        Verb::Limit(LimitVerb::Set(arguments)) => limit::set(&arguments, client, now),
        Verb::Limit(LimitVerb::Rm {
            prefix,
            destination,
            cluster,
        }) => limit::rm(prefix.as_deref(), destination.as_deref(), cluster, client),
        Verb::List(arguments) => list(&arguments, client, now),
        Verb::Allow(AllowVerb::List) => Err(renamed("allow list", "list allows")),
        Verb::Limit(LimitVerb::List) => Err(renamed("limit list", "list limits")),
        Verb::Import(arguments) => match (&arguments.remove, &arguments.file) {
            (Some(name), _) => lists::remove(name, client),
            (None, Some(file)) => import::run(file, &arguments, client),
            (None, None) => Err(Failure::usage("name a file, or - for stdin")),
        },
        Verb::Export(arguments) => export::run(&arguments, client, output),
        Verb::Fetch(arguments) => fetch::run(&arguments),
        Verb::Lists(old) => Err(old_lists(&old.words)),
        Verb::Keys(arguments) => keys::run(&arguments, client),
        Verb::Check(arguments) => check::run(&arguments, client, now),
        Verb::Top(arguments) => top::run(&arguments, client, output),
        Verb::Suggest(arguments) => suggest::run(&arguments, client),
        Verb::Stats(arguments) => stats::run(&arguments, client, now),
        Verb::History(old) => {
            let since = if old.words.iter().any(|word| word.starts_with("--since")) {
                "stats"
            } else {
                "stats --since 1h"
            };
            Err(renamed("history", &with_words(since, &old.words)))
        }
        Verb::Events(arguments) => events::run(&arguments, client, output, now),
        Verb::Capture(arguments) => capture::run(&arguments, client, output),
        Verb::Reload {
            dry_run: true,
            file,
            ..
        } => reload::compare(file.as_deref(), client),
        Verb::Reload { discard, force, .. } => {
            reload::run(ReloadRequest { discard, force }, client)
        }
        Verb::Diff { file } => {
            let file = file.map_or_else(String::new, |it| format!(" {}", it.display()));
            Err(renamed("diff", &format!("reload --dry-run{file}")))
        }
        Verb::Apply { file, confirm } => apply::run(&file, confirm, client, now, output),
        Verb::Confirm { save } => confirm::confirm(save, client),
        Verb::Rollback => confirm::roll_back(client),
        Verb::Cluster(verb) => cluster::run(&verb, client, now),
        Verb::Protected => Err(renamed("protected", "list protected")),
        Verb::PassAll(arguments) => pass_all::run(&arguments, client, now),
        Verb::Demo => demo::run(output),
        Verb::Detach => detach::run(client),
        Verb::Doctor(arguments) => match &arguments.archive {
            Some(file) => support::run(file.as_deref(), &arguments, client, now),
            None => Ok(doctor::run(&arguments, client)),
        },
        Verb::Protect(arguments) => protect::run(&arguments, client),
        Verb::Support(old) => Err(renamed(
            "support",
            &with_words("doctor --archive", &old.words),
        )),
        Verb::Simulate(arguments) => simulate::run(&arguments),
        Verb::Config(ConfigVerb::Check {
            upgrade: false,
            file,
        }) => Ok(config::check(&file)),
        Verb::Config(ConfigVerb::Check {
            upgrade: true,
            file,
        }) => config::upgrade(&file),
        Verb::Config(ConfigVerb::Show { with_origin }) => config::show(with_origin, client),
    }
}

fn list(arguments: &ListArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let filter = arguments.filter.filter()?;
    match arguments.kind {
        ListKind::Allows | ListKind::Limits | ListKind::Lists | ListKind::Protected
            if !filter.has_all() =>
        {
            Err(Failure::usage(
                "--within, --origin, --reason-contains and --ending select bans: use them with \
                 `rlctl list bans`",
            ))
        }
        ListKind::Bans => list::bans(&filter, client, now),
        ListKind::Allows => list::allows(client, now),
        ListKind::Limits => list::limits(client, now),
        ListKind::Lists => lists::show(client, now),
        ListKind::Protected => protected::run(client),
    }
}

/// Names what replaced a verb of `rlctl lists`.
fn old_lists(words: &[String]) -> Failure {
    match words.split_first() {
        Some((verb, names)) if verb == "fetch" => {
            renamed("lists fetch", &with_words("fetch", names))
        }
        Some((verb, names)) if verb == "rm" => {
            renamed("lists rm", &with_words("import --remove", names))
        }
        Some(_) | None => renamed("lists", "list lists"),
    }
}

/// A verb with the words that were given to its old name.
fn with_words(verb: &str, words: &[String]) -> String {
    let words = words.iter().map(String::as_str);
    [verb]
        .into_iter()
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Names the verb that replaced another one. Kept until version 2.
fn renamed(old: &str, new: &str) -> Failure {
    Failure::usage(format!("`rlctl {old}` was renamed")).hint(format!("run `rlctl {new}`"))
}
