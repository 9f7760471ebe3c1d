//! How many packets matched the entry that decides.

use ratelimit_core::api::{Entry, EntryCounter, Origin};

use crate::{output::printable, phrase};

/// `counter: 12 packets, 720 bytes`; of a list by all its entries, of a policy by all its sources; nothing where that is not counted.
pub fn sentence(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Allow(allow) => of_origin(&allow.origin, &allow.counter),
        Entry::Ban(ban) => of_origin(&ban.origin, &ban.counter),
        Entry::Policy {
            policy, counter, ..
        } => of_policy(policy, counter),
    }
}

fn of_origin(origin: &Origin, counter: &EntryCounter) -> Option<String> {
    let figures = figures(counter.packets?, counter.bytes?);
    Some(match origin {
        Origin::List(name) => format!("counter: {figures}, by all entries of {}", printable(name)),
        Origin::Config
        | Origin::Manual
        | Origin::Forced
        | Origin::Detected
        | Origin::Program(_)
        | Origin::Crowdsec
        | Origin::Cluster(_) => format!("counter: {figures}"),
    })
}

fn of_policy(policy: &str, counter: &EntryCounter) -> Option<String> {
    let figures = figures(counter.packets?, counter.bytes?);
    let policy = printable(policy);
    Some(format!(
        "counter: {figures}, by all sources under `{policy}`"
    ))
}

fn figures(packets: u64, bytes: u64) -> String {
    format!("{}, {bytes} bytes", phrase::packets(packets))
}
