//! `rlctl allow add` and `rlctl allow rm`.

use jiff::Zoned;
use ratelimit_core::api::AllowRequest;

use crate::{
    arguments::{AllowAddArguments, AllowRmArguments},
    chunks,
    client::Client,
    commands::{ban, removal::Removal},
    failure::Failure,
    phrase, prefixes,
    report::Report,
};

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
