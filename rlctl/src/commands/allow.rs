//! `rlctl allow add` and `rlctl allow rm`.

use clap::{Args, Subcommand};
use jiff::Zoned;
use ratelimit_core::api::AllowRequest;

use crate::{
    chunks,
    client::Client,
    commands::{ban, removal::Removal},
    failure::Failure,
    lifetime::LifetimeArgument,
    phrase, prefixes,
    prefixes::PrefixesArguments,
    report::Report,
};

/// Changes of the allow list.
#[derive(Debug, Subcommand)]
pub enum AllowVerb {
    /// Add addresses and prefixes to the allow list
    Add(AllowAddArguments),
    /// Remove addresses and prefixes from the allow list
    #[command(after_help = "\
Examples:
  rlctl allow rm 192.0.2.10

The exit code is 1 if none of them was on it.")]
    Rm(AllowRmArguments),
    /// Renamed to `rlctl list allows`
    #[command(hide = true)]
    List,
}

/// `allow add PREFIX... [--for TIME] [--reason TEXT]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl allow add 192.0.2.10 --reason monitoring
  rlctl allow add 203.0.113.7 --for 2h --reason 'migration of a customer'
  rlctl allow add @offices.txt
  rlctl allow add 203.0.113.7 --for 2h --cluster

The kernel enforces the expiry even without the daemon. A ban of the same prefix then takes \
effect.")]
pub struct AllowAddArguments {
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    #[command(flatten)]
    pub lifetime: LifetimeArgument,
    /// Reason shown with the entry
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Also allow prefixes wider than /8 (IPv6: /16)
    #[arg(long)]
    pub force: bool,
    /// Allow on all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// `allow rm PREFIX... [--cluster]`
#[derive(Args, Debug)]
pub struct AllowRmArguments {
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    /// Apply to all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// Puts the prefixes on the allow list.
pub fn add(arguments: &AllowAddArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let prefixes = prefixes::read(&arguments.prefixes)?;
    let answer = chunks::send(&prefixes, |prefixes| {
        let request = AllowRequest {
            prefixes,
            seconds: arguments.lifetime.lifetime.seconds(),
            reason: arguments.reason.clone(),
            force: arguments.force,
        };
        client.post(path(arguments.cluster), &request)
    })?;
    let whom = phrase::whom(&prefixes);
    let lifetime = phrase::lifetime(arguments.lifetime.lifetime, answer.value.until, now);
    let whereabouts = phrase::everywhere(arguments.cluster, &answer.value);
    let novelty = ban::novelty(prefixes.len(), &answer.value);
    let text = format!("allowed {whom} {lifetime}{whereabouts}{novelty}");
    Ok(Report::new(answer, text).notes(chunks::note(&prefixes)))
}

/// Removes the prefixes from the allow list.
pub fn rm(arguments: &AllowRmArguments, client: &Client) -> Result<Report, Failure> {
    let removal = Removal {
        path: path(arguments.cluster),
        of_sources: false,
        cluster: arguments.cluster,
        done: |whom| format!("removed {whom} from the allow list"),
        absent: "is not on the allow list",
        absent_many: "are not on the allow list",
    };
    let host_bits = arguments.prefixes.network.host_bits();
    removal.run(&arguments.prefixes.prefixes, host_bits, client)
}

fn path(cluster: bool) -> &'static str {
    if cluster {
        "/v1/cluster/allows"
    } else {
        "/v1/allows"
    }
}
