//! Shared parts of `unban` and `allow rm`, which may name missing prefixes.

use std::collections::BTreeMap;

use ratelimit_core::{
    api::{Changed, PrefixesRequest, RemainingBan, UnbanRequest},
    prefix::Prefix,
};

use crate::{
    chunks,
    client::Client,
    failure::Failure,
    output::printable,
    phrase,
    prefixes::{self, HostBits, Named},
    report::Report,
};

/// Prefixes that are named one by one in a note; the others are counted.
const NAMED_MAX: usize = 10;

/// A list from which something is taken.
pub struct Removal {
    /// The path in the API.
    pub path: &'static str,
    /// Whether an IPv6 address also means the prefix of its source.
    pub of_sources: bool,
    /// Whether all nodes take it off theirs.
    pub cluster: bool,
    /// Result for removed entries: `unbanned {}`.
    pub done: fn(&str) -> String,
    /// Result for one entry that did not exist: `is not banned`.
    pub absent: &'static str,
    /// Result for several entries that did not exist: `are not banned`.
    pub absent_many: &'static str,
}

impl Removal {
    /// Takes the prefixes off the list. It counts as refused when none of them was there.
    pub fn run(
        &self,
        texts: &[String],
        host_bits: HostBits,
        client: &Client,
    ) -> Result<Report, Failure> {
        let named = prefixes::read_named(texts, host_bits)?;
        let prefixes: Vec<Prefix> = named.iter().map(|named| named.prefix).collect();
        let answer = chunks::send(&named, |named| {
            if !self.of_sources {
                let prefixes = named.iter().map(|named| named.prefix).collect();
                return client.delete(self.path, &PrefixesRequest { prefixes });
            }
            let (prefixes, sources) = Named::split(&named);
            client.delete(self.path, &UnbanRequest { prefixes, sources })
        })?;
        let Changed {
            mut absent,
            removed,
            held,
            sources,
            ..
        } = answer.value.clone();
        let unfolded: Vec<String> = phrase::unfolded(&answer.value).collect();
        let whereabouts = phrase::everywhere(self.cluster, &answer.value);
        let mut report = Report::new(answer, "");
        report.notes.extend(chunks::note(&prefixes));
        if removed == 0 {
            report.failure = Some(self.nothing_removed(&prefixes, &held));
            return Ok(report);
        }
        let gone: Vec<Prefix> = prefixes
            .into_iter()
            .filter(|prefix| !absent.contains(prefix))
            .collect();
        let whom = match (&gone[..], &sources[..]) {
            ([prefix], [source]) if prefix == source => phrase::whom(&gone),
            ([prefix], [source]) if removed == 1 => format!("{source}, the source of {prefix}"),
            ([prefix], [source]) => format!("{prefix} and its source {source}"),
            _ => phrase::whom(&gone),
        };
        report.text = (self.done)(&whom) + whereabouts;
        absent.retain(|prefix| held.iter().all(|held| held.prefix != *prefix));
        report.notes.extend(self.remarks(&absent));
        report.notes.extend(unfolded);
        report.notes.extend(still_banned(&held));
        Ok(report)
    }

    fn nothing_removed(&self, named: &[Prefix], held: &[RemainingBan]) -> Failure {
        match named {
            [prefix] if !held.is_empty() => {
                let bans: Vec<&RemainingBan> = held.iter().collect();
                Failure::refused(format!("{prefix} is banned by {}", by_name(&bans)))
                    .hint(format!("to let it pass: rlctl allow add {prefix}"))
            }
            [prefix] => Failure::refused(format!("{prefix} {}", self.absent))
                .hint(format!("see `rlctl check {}`", prefix.address())),
            several => Failure::refused(format!(
                "all {} prefixes {}",
                several.len(),
                self.absent_many
            )),
        }
    }

    fn remarks(&self, absent: &[Prefix]) -> Vec<String> {
        let named = absent.iter().take(NAMED_MAX);
        let mut remarks: Vec<String> = named
            .map(|prefix| format!("{prefix} {}", self.absent))
            .collect();
        if absent.len() > NAMED_MAX {
            remarks.push(format!(
                "{} more {}",
                absent.len() - NAMED_MAX,
                self.absent_many
            ));
        }
        remarks
    }
}

/// Lists prefixes that are still banned by lists or wider prefixes.
pub fn still_banned(held: &[RemainingBan]) -> Vec<String> {
    let mut bans: BTreeMap<Prefix, Vec<&RemainingBan>> = BTreeMap::new();
    for held in held {
        bans.entry(held.prefix).or_default().push(held);
    }
    let named = bans.iter().take(NAMED_MAX);
    let mut remarks: Vec<String> = named
        .map(|(prefix, bans)| format!("{prefix} stays banned by {}", by_name(bans)))
        .collect();
    if bans.len() > NAMED_MAX {
        remarks.push(format!(
            "{} more stay banned by lists or wider prefixes",
            bans.len() - NAMED_MAX
        ));
    }
    remarks
}

/// `the list a`, `the lists a and b`, `the ban of 192.0.2.0/24 (manual)`
fn by_name(held: &[&RemainingBan]) -> String {
    let mut lists = Vec::new();
    let mut parts = Vec::new();
    for held in held {
        if let Some(name) = held.origin.list_name() {
            lists.push(printable(name));
        } else {
            let origin = printable(&held.origin.to_string());
            parts.push(format!("the ban of {} ({origin})", held.banned));
        }
    }
    match &lists[..] {
        [] => {}
        [list] => parts.push(format!("the list {list}")),
        several => parts.push(format!("the lists {}", phrase::and(several))),
    }
    phrase::and(&parts)
}
