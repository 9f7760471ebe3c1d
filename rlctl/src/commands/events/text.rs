//! Events for people.

use jiff::Zoned;
use ratelimit_core::{
    api::{BanChange, Dropped, Event, SeenDrops, What},
    limit::LimitSpec,
};

use crate::{
    output::{BAD, GOOD, HEAD, WARNING, printable, styled},
    phrase,
};

/// When it happened, and what.
pub fn line(event: &Event, now: &Zoned) -> String {
    let at = phrase::moment(event.at, now);
    format!("{at} {}", what(&event.what, now))
}

/// Drops that are alike: `14:22:07 dropped 192.0.2.1 on eth0: limited, the last of 9 since 14:21:58`.
pub fn drops(drops: &SeenDrops, now: &Zoned) -> String {
    let last = line(&drops.last, now);
    if drops.count == 1 {
        return last;
    }
    let since = phrase::moment(drops.since, now);
    format!("{last}, the last of {} since {since}", drops.count)
}

#[expect(clippy::too_many_lines, reason = "an arm for each event")]
fn what(what: &What, now: &Zoned) -> String {
    match what {
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
            "{} the list {}{}: {}, {different} different",
            styled(WARNING, "replaced"),
            printable(list),
            by_whom(by.as_deref()),
            phrase::count(*entries, "entry", "entries")
        ),
        What::AllowAdded(allow) => format!(
            "{} {} by {} {}{}",
            styled(GOOD, "allowed"),
            allow.prefix,
            printable(allow.author.as_deref().unwrap_or("somebody")),
            phrase::until(allow.until, now),
            reason(allow.reason.as_deref())
        ),
        What::AllowEnded(allow) => format!(
            "{} the allow of {} by {}",
            styled(WARNING, "ended"),
            allow.prefix,
            printable(allow.author.as_deref().unwrap_or("somebody"))
        ),
        What::AllowRemoved { allow, by } => format!(
            "{} {} off the allow list{}",
            styled(WARNING, "took"),
            allow.prefix,
            by_whom(by.as_deref())
        ),
        What::LimitsSet {
            prefix,
            destination,
            limits,
            observe,
            until,
            reason: why,
            by,
        } => format!(
            "{} {} to {}{} by {} {}{}",
            styled(WARNING, "limited"),
            phrase::target(*prefix, *destination),
            phrase::and(limits),
            if *observe { " (dry run)" } else { "" },
            printable(by),
            phrase::until(*until, now),
            reason(why.as_deref())
        ),
        What::LimitsEnded {
            prefix,
            destination,
            starts_anew,
        } => format!(
            "{} the runtime limits of {}: the configuration holds again{}",
            styled(WARNING, "ended"),
            phrase::target(*prefix, *destination),
            if *starts_anew {
                "; what was used under them does not count any more"
            } else {
                ""
            }
        ),
        What::LimitsRemoved {
            prefix,
            destination,
            by,
        } => format!(
            "{} away the runtime limits of {}{}",
            styled(WARNING, "took"),
            phrase::target(*prefix, *destination),
            by_whom(by.as_deref())
        ),
        What::ChallengeBegan { when, is_of_dns } => format!(
            "{} is on, {}: {} sources that are not verified are challenged",
            styled(BAD, "challenge"),
            printable(when),
            if *is_of_dns { "DNS" } else { "TCP" }
        ),
        What::ChallengeSuspended { until } => format!(
            "{} is suspended until {}: nobody who was challenged proved itself",
            styled(BAD, "challenge"),
            phrase::moment(*until, now)
        ),
        What::ChallengeEnded { is_of_dns } => format!(
            "{} is off: {} is challenged any more",
            styled(GOOD, "challenge"),
            if *is_of_dns {
                "no DNS source"
            } else {
                "nobody"
            }
        ),
        What::Drop(dropped) => drop(dropped),
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
        What::TrialBegan {
            file,
            until,
            changes,
            by,
        } => format!(
            "{} {} {} by {}: {}",
            styled(WARNING, "trying"),
            printable(file),
            phrase::until(Some(*until), now),
            printable(by),
            if changes.is_empty() {
                "nothing is different".to_owned()
            } else {
                printable(&changes.join("; "))
            }
        ),
        What::TrialConfirmed { file, by } => format!(
            "{} {}, which was on trial, by {}",
            styled(GOOD, "kept"),
            printable(file),
            printable(by)
        ),
        What::TrialRolledBack { file, by } => format!(
            "{} {} back{}: the configuration before holds again",
            styled(WARNING, "took"),
            printable(file),
            by.as_deref().map_or_else(
                || ", which nobody confirmed".to_owned(),
                |by| by_whom(Some(by))
            )
        ),
        What::Detached { interfaces, by } => format!(
            "{} from {} by {}: nothing is dropped any more",
            styled(BAD, "detached"),
            printable(&phrase::and(interfaces)),
            printable(by)
        ),
        What::PassAllOn { until, by } => format!(
            "{} is on {} by {}: nothing is limited or banned",
            styled(BAD, "pass-all"),
            phrase::until(*until, now),
            printable(by)
        ),
        What::PassAllOff { by } => format!(
            "{} is off{}: packets are judged again",
            styled(GOOD, "pass-all"),
            by_whom(by.as_deref())
        ),
        What::InterfaceAttached {
            interface,
            mode,
            remark,
        } => {
            let remark = remark
                .as_deref()
                .map(|remark| format!("; {}", printable(remark)));
            format!(
                "{} to {} in {} mode{}",
                styled(GOOD, "attached"),
                printable(interface),
                printable(mode),
                remark.unwrap_or_default()
            )
        }
        What::InterfaceLost { interface, why } => format!(
            "{} on {}: {}",
            styled(BAD, "not enforced"),
            printable(interface),
            printable(why)
        ),
        What::AttackBegan(attack) => format!(
            "{}: {}",
            styled(BAD, "an attack has begun"),
            phrase::attack(attack, now)
        ),
        What::AttackEnded(attack) => format!(
            "{}: {}",
            styled(GOOD, "an attack has ended"),
            phrase::attack(attack, now)
        ),
        What::TroubleBegan { what, error } => format!(
            "{} {}: {}",
            styled(BAD, "trouble with"),
            printable(what),
            printable(error)
        ),
        What::TroubleEnded { what } => format!(
            "{} {}: it works again",
            styled(GOOD, "no more trouble with"),
            printable(what)
        ),
        What::Lost { count } => format!(
            "{} {count} events, which came faster than they were read",
            styled(WARNING, "lost")
        ),
    }
}

/// `dropped 203.0.113.7 (udp to 192.0.2.1 port 53 from port 4444) on eth0: limited, 1000 packets per 1s of policy default`
fn drop(dropped: &Dropped) -> String {
    let source = dropped.from.unwrap_or(dropped.source);
    let packet = match printable(&dropped.packet.to_string()).as_str() {
        "" => String::new(),
        packet => format!(" ({packet})"),
    };
    let Dropped {
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
        "{verb} {source}{packet} on {}: {}{limit}{}",
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
    fn what_is_not_enforced_is_told_and_that_it_is_again() {
        check(
            r#""event":"interface-lost","interface":"eth0","why":"there is no such interface""#,
            "not enforced on eth0: there is no such interface",
        );
        check(
            r#""event":"interface-attached","interface":"eth0","mode":"native","remark":null"#,
            "attached to eth0 in native mode",
        );
        check(
            r#""event":"trouble-began","what":"metrics","error":"the port is taken""#,
            "trouble with metrics: the port is taken",
        );
    }

    #[test]
    fn that_everything_passes_is_told_and_that_it_is_over() {
        check(
            r#""event":"trial-began","file":"new.toml","until":"2026-03-02T15:00:00Z","changes":["observe: false -> true"],"by":"root""#,
            "trying new.toml until 15:00:00 by root: observe: false -> true",
        );
        check(
            r#""event":"trial-confirmed","file":"new.toml","by":"root""#,
            "kept new.toml, which was on trial, by root",
        );
        check(
            r#""event":"trial-rolled-back","file":"new.toml","by":"root""#,
            "took new.toml back by root: the configuration before holds again",
        );
        check(
            r#""event":"trial-rolled-back","file":"new.toml","by":null"#,
            "took new.toml back, which nobody confirmed: the configuration before holds again",
        );
        check(
            r#""event":"pass-all-on","until":"2026-03-02T15:00:00Z","by":"root""#,
            "pass-all is on until 15:00:00 by root: nothing is limited or banned",
        );
        check(
            r#""event":"pass-all-off","by":null"#,
            "pass-all is off: packets are judged again",
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
    fn an_allow_and_limits_say_until_when_and_why() {
        let allow = r#""prefix":"192.0.2.1/32","until":"2026-03-02T14:42:07Z","since":"2026-03-02T14:32:07Z","reason":"migration","author":"root","origin":"manual""#;
        check(
            &format!(r#""event":"allow-added",{allow}"#),
            "allowed 192.0.2.1 by root until 14:42:07: migration",
        );
        check(
            &format!(r#""event":"allow-ended",{allow}"#),
            "ended the allow of 192.0.2.1 by root",
        );
        check(
            r#""event":"limits-set","prefix":null,"limits":[{"packets":1,"per":"1s"}],"observe":false,"until":"2026-03-02T14:42:07Z","reason":"crawler","by":"root""#,
            "limited the default policy to 1 packet per 1s by root until 14:42:07: crawler",
        );
        check(
            r#""event":"limits-ended","prefix":"192.0.2.1/32""#,
            "ended the runtime limits of 192.0.2.1: the configuration holds again",
        );
    }

    fn check(fields: &str, expected: &str) {
        let json = format!(r#"{{"number":1,"at":"2026-03-02T14:32:07Z",{fields}}}"#);
        let event = serde_json::from_str(&json).unwrap();
        let now = "2026-03-02T14:50:00Z[UTC]".parse().unwrap();
        let line = anstream::adapter::strip_str(&line(&event, &now)).to_string();
        assert_eq!(line, format!("14:32:07 {expected}"));
    }
}
