//! `rlctl events`: what happened lately, and with `--follow` what happens.

use hyper::Method;
use jiff::Zoned;
use serde_json::Value;

use crate::{
    api::{BanChange, Dropped, Event, What},
    limit::LimitSpec,
    prefix::Prefix,
    rlctl::{
        arguments::EventsArguments,
        client::Client,
        exit_code::ExitCode,
        failure::Failure,
        output::{BAD, GOOD, HEAD, Output, WARNING, printable, styled},
        phrase, prefixes,
        report::Report,
        stream::Ended,
    },
};

/// How many that are kept come first, unless it is said.
const BEFORE_FOLLOWING: u32 = 10;

/// Shows events as they come.
pub fn run(
    arguments: &EventsArguments,
    client: &Client,
    output: &Output,
) -> Result<Report, Failure> {
    let path = path(arguments)?;
    let mut lines = Lines::default();
    let ended = client.stream(Method::GET, &path, None::<&Value>, None, |piece| {
        lines.push(piece);
        while let Some(line) = lines.next() {
            if !show(&line, output)? {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    if arguments.follow && ended == Ended::ByDaemon {
        return Err(Failure::new(ExitCode::NoDaemon, "the daemon stopped"));
    }
    Ok(Report::printed())
}

fn path(arguments: &EventsArguments) -> Result<String, Failure> {
    let follow = arguments.follow;
    let mut path = format!("/v1/events?follow={follow}");
    let first = follow.then_some(BEFORE_FOLLOWING);
    if let Some(count) = arguments.count.or(first) {
        path.push_str(&format!("&count={count}"));
    }
    if let Some(kind) = arguments.only {
        let kind = serde_json::to_value(kind).expect("a kind is a word");
        path.push_str(&format!("&only={}", kind.as_str().unwrap_or_default()));
    }
    if let Some(source) = &arguments.source {
        path.push_str(&format!("&source={}", prefixes::read_one(source)?));
    }
    Ok(path)
}

/// Prints a line; `false` when nobody reads any more.
fn show(line: &[u8], output: &Output) -> Result<bool, Failure> {
    let json: Value = serde_json::from_slice(line).map_err(|error| {
        Failure::refused(format!("an event of the daemon is not understood: {error}"))
    })?;
    output.line(&json, || sentence(&json, &Zoned::now()))
}

/// An event for people; of one that only a newer daemon knows, as much as can be told.
fn sentence(json: &Value, now: &Zoned) -> String {
    match serde_json::from_value::<Event>(json.clone()) {
        Ok(event) => line(&event, now),
        Err(_) => printable(&json.to_string()),
    }
}

/// When it happened, and what.
pub fn line(event: &Event, now: &Zoned) -> String {
    let at = phrase::moment(event.at, now);
    format!("{at} {}", what(&event.what, now))
}

fn what(what: &What, now: &Zoned) -> String {
    match what {
        What::Drop(dropped) => drop(dropped),
        What::BanAdded(ban) => format!(
            "{} {} by {} {}{}",
            styled(BAD, "banned"),
            ban.prefix,
            phrase::author(ban),
            phrase::until(ban.until, now),
            reason(ban.reason.as_deref())
        ),
        What::BanEnded(ban) => format!(
            "{} the ban of {} by {}",
            styled(GOOD, "ended"),
            ban.prefix,
            phrase::author(ban)
        ),
        What::BanRemoved { ban, by: Some(by) } => format!(
            "{} {} by {}",
            styled(GOOD, "unbanned"),
            ban.prefix,
            printable(by)
        ),
        What::BanRemoved { ban, by: None } => format!(
            "{} {}: no more a ban by {}",
            styled(GOOD, "unbanned"),
            ban.prefix,
            phrase::author(ban)
        ),
        What::Bans {
            change,
            count,
            origin,
            by,
        } => {
            let by = by.as_deref().map(|by| format!(" by {}", printable(by)));
            let (style, verb) = match change {
                BanChange::Added => (BAD, "banned"),
                BanChange::Ended => (GOOD, "ended"),
                BanChange::Removed => (GOOD, "unbanned"),
            };
            let what = match change {
                BanChange::Ended => "bans of",
                BanChange::Added | BanChange::Removed => "prefixes, of",
            };
            let origin = printable(&origin.to_string());
            format!(
                "{} {count} {what} origin {origin}{}",
                styled(style, verb),
                by.unwrap_or_default()
            )
        }
        What::ListReplaced {
            list,
            entries: 0,
            by,
            ..
        } => format!(
            "{} away the list {}{}",
            styled(WARNING, "took"),
            printable(list),
            by_whom(by.as_deref())
        ),
        What::ListReplaced {
            list,
            entries,
            different,
            by,
        } => format!(
            "{} the list {}{}: {entries} entries, {different} different",
            styled(WARNING, "replaced"),
            printable(list),
            by_whom(by.as_deref())
        ),
        What::AllowAdded(allow) => format!(
            "{} {} by {}{}",
            styled(GOOD, "allowed"),
            allow.prefix,
            printable(allow.author.as_deref().unwrap_or("somebody")),
            reason(allow.reason.as_deref())
        ),
        What::AllowRemoved { allow, by } => format!(
            "{} {} off the allow list{}",
            styled(WARNING, "took"),
            allow.prefix,
            by_whom(by.as_deref())
        ),
        What::LimitsSet {
            prefix,
            limits,
            observe,
            by,
        } => format!(
            "{} {} to {}{} by {}",
            styled(WARNING, "limited"),
            whose(*prefix),
            phrase::and(limits),
            if *observe { " (dry run)" } else { "" },
            printable(by)
        ),
        What::LimitsRemoved { prefix, by } => format!(
            "{} away the limits set by hand for {}{}",
            styled(WARNING, "took"),
            whose(*prefix),
            by_whom(by.as_deref())
        ),
        What::Reloaded { changes } if changes.is_empty() => {
            format!(
                "{} the configuration: nothing is different",
                styled(HEAD, "reloaded")
            )
        }
        What::Reloaded { changes } => format!(
            "{} the configuration: {}",
            styled(HEAD, "reloaded"),
            printable(&changes.join("; "))
        ),
        What::ReloadRefused { error } => format!(
            "{} the configuration, the one before stays in force: {}",
            styled(BAD, "refused"),
            printable(&error.replace('\n', "; "))
        ),
        What::Detached { interfaces, by } => format!(
            "{} from {} by {}: nothing is dropped any more",
            styled(BAD, "detached"),
            printable(&phrase::and(interfaces)),
            printable(by)
        ),
        What::Lost { count } => format!(
            "{} {count} events, which came faster than they were read",
            styled(WARNING, "lost")
        ),
    }
}

/// `dropped 203.0.113.7 on eth0: limited, 1000 packets per 1s of policy default`
fn drop(dropped: &Dropped) -> String {
    let Dropped {
        source,
        interface,
        reason,
        observed,
        ..
    } = dropped;
    let limit = dropped.limit.as_ref().map(limit).unwrap_or_default();
    let policy = dropped.policy.as_deref();
    let policy = policy.map(|policy| format!(" of policy {}", printable(policy)));
    let verb = if *observed {
        styled(WARNING, "would drop")
    } else {
        styled(BAD, "dropped")
    };
    format!(
        "{verb} {source} on {}: {}{limit}{}",
        printable(interface),
        printable(reason),
        policy.unwrap_or_default()
    )
}

fn limit(limit: &LimitSpec) -> String {
    format!(", {limit}")
}

fn reason(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(": {}", printable(reason)))
        .unwrap_or_default()
}

fn by_whom(by: Option<&str>) -> String {
    by.map(|by| format!(" by {}", printable(by)))
        .unwrap_or_default()
}

fn whose(prefix: Option<Prefix>) -> String {
    prefix.map_or_else(
        || "the default policy".to_owned(),
        |prefix| prefix.to_string(),
    )
}

/// Whole lines out of pieces.
#[derive(Default)]
struct Lines {
    pieces: Vec<u8>,
    /// How much of `pieces` was given out.
    given: usize,
}

impl Lines {
    fn push(&mut self, piece: &[u8]) {
        self.pieces.drain(..self.given);
        self.given = 0;
        self.pieces.extend_from_slice(piece);
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.pieces[self.given..];
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = rest[..end].to_vec();
        self.given += end + 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_says_where_why_and_by_which_limit() {
        check(
            r#""event":"drop","source":"192.0.2.1","reason":"limited","observed":false,"policy":"default","limit":{"packets":1,"per":"1s"},"interface":"eth0""#,
            "dropped 192.0.2.1 on eth0: limited, 1 packet per 1s of policy default",
        );
        check(
            r#""event":"drop","source":"2001:db8::","reason":"banned","observed":true,"policy":null,"limit":null,"interface":"eth0""#,
            "would drop 2001:db8:: on eth0: banned",
        );
    }

    #[test]
    fn a_ban_says_by_whom_until_when_and_why() {
        let ban = r#""prefix":"192.0.2.1/32","until":"2026-03-02T14:42:07Z","since":"2026-03-02T14:32:07Z","reason":"scan","author":"root","origin":"manual""#;
        check(
            &format!(r#""event":"ban-added",{ban}"#),
            "banned 192.0.2.1 by root until 14:42:07: scan",
        );
        check(
            &format!(r#""event":"ban-ended",{ban}"#),
            "ended the ban of 192.0.2.1 by root",
        );
        check(
            &format!(r#""event":"ban-removed",{ban},"by":"eve""#),
            "unbanned 192.0.2.1 by eve",
        );
        check(
            r#""event":"bans","change":"added","count":5000,"origin":"list:drop","by":null"#,
            "banned 5000 prefixes, of origin list:drop",
        );
    }

    #[test]
    fn what_a_newer_daemon_tells_is_shown_as_it_comes() {
        let json: Value = serde_json::from_str(r#"{"event":"new"}"#).unwrap();
        assert_eq!(sentence(&json, &now()), r#"{"event":"new"}"#);
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let mut lines = Lines::default();
        lines.push(b"a");
        assert_eq!(lines.next(), None);
        lines.push(b"b\nc\n");
        assert_eq!(lines.next(), Some(b"ab".to_vec()));
        lines.push(b"d");
        assert_eq!(lines.next(), Some(b"c".to_vec()));
        assert_eq!(lines.next(), None);
    }

    fn check(fields: &str, expected: &str) {
        let json = format!(r#"{{"number":1,"at":"2026-03-02T14:32:07Z",{fields}}}"#);
        let json: Value = serde_json::from_str(&json).unwrap();
        let sentence = anstream::adapter::strip_str(&sentence(&json, &now())).to_string();
        assert_eq!(sentence, format!("14:32:07 {expected}"));
    }

    fn now() -> Zoned {
        "2026-03-02T14:50:00Z[UTC]".parse().unwrap()
    }
}
