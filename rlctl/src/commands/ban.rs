//! `rlctl ban`: whose packets are dropped, until when.

use jiff::Zoned;
use ratelimit_core::api::{BanRequest, Changed, ProgramBanRequest};

use crate::{
    arguments::BanArguments, chunks, client::Client, failure::Failure, lifetime::Lifetime, phrase,
    prefixes, report::Report,
};

/// Bans the prefixes.
pub fn run(arguments: &BanArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let prefixes = prefixes::read(&arguments.prefixes.prefixes)?;
    let answer = chunks::send(&prefixes, |prefixes| {
        if let Some(program) = &arguments.program {
            let request = ProgramBanRequest {
                program: program.clone(),
                prefixes,
                seconds: arguments.lifetime.seconds(),
                reason: arguments.reason.clone(),
            };
            return client.post("/v1/bans/program", &request);
        }
        let request = BanRequest {
            prefixes,
            seconds: arguments.lifetime.seconds(),
            reason: arguments.reason.clone(),
            force: arguments.force,
        };
        client.post("/v1/bans", &request)
    })?;
    let whom = phrase::whom(&prefixes);
    let text = sentence(
        &whom,
        arguments.lifetime,
        prefixes.len(),
        &answer.value,
        now,
    );
    Ok(Report::new(answer, text).notes(chunks::note(&prefixes)))
}

/// `banned 1.2.3.4 for 10m (until 14:32:07)`
fn sentence(
    whom: &str,
    lifetime: Lifetime,
    named: usize,
    changed: &Changed,
    now: &Zoned,
) -> String {
    let lifetime = phrase::lifetime(lifetime, changed.until, now);
    format!("banned {whom} {lifetime}{}", novelty(named, changed))
}

/// What is said about entries that were there before.
pub fn novelty(named: usize, changed: &Changed) -> String {
    match (named, changed.added, changed.updated) {
        (named, added, _) if added == named => String::new(),
        (1, _, 0) => ", as it was before".to_owned(),
        (1, ..) => ", in place of an earlier entry".to_owned(),
        (_, added, updated) => format!(
            ": {added} new, {updated} changed, {} as before",
            named.saturating_sub(added + updated)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_is_told_with_its_end() {
        check(
            "1.2.3.4",
            1,
            (1, 0),
            "banned 1.2.3.4 for 10m (until 14:32:07)",
        );
        check(
            "12 prefixes",
            12,
            (12, 0),
            "banned 12 prefixes for 10m (until 14:32:07)",
        );
    }

    #[test]
    fn what_was_banned_before_is_told() {
        check(
            "1.2.3.4",
            1,
            (0, 1),
            "banned 1.2.3.4 for 10m (until 14:32:07), in place of an earlier entry",
        );
        check(
            "1.2.3.4",
            1,
            (0, 0),
            "banned 1.2.3.4 for 10m (until 14:32:07), as it was before",
        );
        check(
            "12 prefixes",
            12,
            (7, 4),
            "banned 12 prefixes for 10m (until 14:32:07): 7 new, 4 changed, 1 as before",
        );
    }

    fn check(whom: &str, named: usize, (added, updated): (usize, usize), expected: &str) {
        let changed = Changed {
            added,
            updated,
            until: Some("2026-03-02T14:32:07Z".parse().unwrap()),
            ..Changed::default()
        };
        let now = "2026-03-02T14:22:07Z[UTC]".parse().unwrap();
        let lifetime = "10m".parse().unwrap();
        assert_eq!(sentence(whom, lifetime, named, &changed, &now), expected);
    }
}
