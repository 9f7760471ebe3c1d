//! What `unban` and `allow rm` have in common: something named may not be there.

use crate::{
    api::{Changed, PrefixesRequest},
    prefix::Prefix,
    rlctl::{
        arguments::PrefixesArguments, chunks, client::Client, failure::Failure, phrase, prefixes,
        report::Report,
    },
};

/// Prefixes that are named one by one when they were not there; the others are counted.
const ABSENT_NAMED: usize = 10;

/// A list from which something is taken.
pub struct Removal {
    /// Where the daemon has it.
    pub path: &'static str,
    /// What is said of those who were on it: `unbanned {}`.
    pub done: fn(&str) -> String,
    /// What is said of one who was not: `is not banned`.
    pub absent: &'static str,
    /// What is said of several who were not: `are not banned`.
    pub absent_many: &'static str,
}

impl Removal {
    /// Takes the prefixes off the list. It counts as refused when none of them was there.
    pub fn run(&self, arguments: &PrefixesArguments, client: &Client) -> Result<Report, Failure> {
        let prefixes = prefixes::read(&arguments.prefixes)?;
        let answer = chunks::send(&prefixes, |prefixes| {
            client.delete(self.path, &PrefixesRequest { prefixes })
        })?;
        let Changed {
            absent, removed, ..
        } = answer.value.clone();
        let mut report = Report::new(answer, "");
        report.notes.extend(chunks::note(&prefixes));
        if removed == 0 {
            report.failure = Some(self.nothing_done(&prefixes));
            return Ok(report);
        }
        let gone: Vec<Prefix> = prefixes
            .into_iter()
            .filter(|prefix| !absent.contains(prefix))
            .collect();
        report.text = (self.done)(&phrase::whom(&gone));
        report.notes.extend(self.remarks(&absent));
        Ok(report)
    }

    fn nothing_done(&self, named: &[Prefix]) -> Failure {
        match named {
            [prefix] => Failure::refused(format!("{prefix} {}", self.absent)).hint(format!(
                "`rlctl check {}` says what holds",
                prefix.address()
            )),
            several => Failure::refused(format!(
                "all {} prefixes {}",
                several.len(),
                self.absent_many
            )),
        }
    }

    fn remarks(&self, absent: &[Prefix]) -> Vec<String> {
        let named = absent.iter().take(ABSENT_NAMED);
        let mut remarks: Vec<String> = named
            .map(|prefix| format!("{prefix} {}", self.absent))
            .collect();
        if absent.len() > ABSENT_NAMED {
            remarks.push(format!(
                "{} more {}",
                absent.len() - ABSENT_NAMED,
                self.absent_many
            ));
        }
        remarks
    }
}
