//! Events for people.

use anstyle::Style;
use jiff::Zoned;
use ratelimit_core::api::{Allow, BanChange, Dropped, Event, Origin, SeenDrops, What};

use crate::{
    output::{BAD, GOOD, HEAD, WARNING, printable, styled},
    phrase,
};

/// The time and the text of an event.
pub fn line(event: &Event, now: &Zoned) -> String {
    let at = phrase::moment(event.at, now);
    let (style, verb, mut rest) = what(&event.what, now);
    // The text of an attack contains styles and is printable already.
    if !event.what.is_attack() {
        rest = printable(&rest);
    }
    format!("{at} {}{rest}", styled(style, verb))
}

/// Drops that are alike: `14:22:07 dropped 192.0.2.1 on eth0: limited, 9 times since 14:21:58`.
pub fn drops(drops: &SeenDrops, now: &Zoned) -> String {
    let last = line(&drops.last, now);
    if drops.count == 1 {
        return last;
    }
    let since = phrase::moment(drops.since, now);
    format!("{last}, {} times since {since}", drops.count)
}

/// Formats an event: its style, its name, and the rest of the line.
#[expect(clippy::too_many_lines, reason = "an arm for each event")]
fn what(what: &What, now: &Zoned) -> (Style, &'static str, String) {
    let until = |until| phrase::until(until, now);
    match what {
        What::BanAdded(ban) => {
            let (author, why) = (phrase::author(ban), reason(ban.reason.as_deref()));
            let until = until(ban.until);
            let rest = format!(" {} by {author} {until}{why}", ban.prefix);
            (BAD, "banned", rest)
        }
        What::BanEnded(ban) => {
            let (prefix, author) = (ban.prefix, phrase::author(ban));
            (GOOD, "ban expired", format!(": {prefix} (set by {author})"))
        }
        What::BanRemoved { ban, by } => {
            let by = match by {
                Some(by) => format!(" by {by}"),
                None => format!(": {} no longer bans it", phrase::author(ban)),
            };
            let verb = if ban.origin == Origin::Folded {
                "unfolded"
            } else {
                "unbanned"
            };
            (GOOD, verb, format!(" {}{by}", ban.prefix))
        }
        What::Bans {
            change,
            count,
            origin,
            by,
        } => {
            let (style, verb, what) = match change {
                BanChange::Added => (BAD, "banned", "prefixes"),
                BanChange::Ended => (GOOD, "expired", "bans"),
                BanChange::Removed => (GOOD, "unbanned", "prefixes"),
            };
            let by = by_whom(by.as_deref());
            (style, verb, format!(" {count} {what} from {origin}{by}"))
        }
        What::ListReplaced {
            list,
            entries,
            different,
            is_new,
            by,
        } => {
            let by = by_whom(by.as_deref());
            if *entries == 0 {
                return (WARNING, "removed", format!(" list {list}{by}"));
            }
            let entries = phrase::count(*entries, "entry", "entries");
            if *is_new {
                return (WARNING, "added", format!(" list {list}{by}: {entries}"));
            }
            let rest = format!(" list {list}{by}: {entries}, {different} changed");
            (WARNING, "loaded", rest)
        }
        What::AllowAdded(allow) => {
            let (author, why) = (author(allow), reason(allow.reason.as_deref()));
            let until = until(allow.until);
            let rest = format!(" {} by {author} {until}{why}", allow.prefix);
            (GOOD, "allowed", rest)
        }
        What::AllowEnded(allow) => {
            let rest = format!(": {} (set by {})", allow.prefix, author(allow));
            (WARNING, "allow expired", rest)
        }
        What::AllowRemoved { allow, by } => {
            let (prefix, by) = (allow.prefix, by_whom(by.as_deref()));
            (
                WARNING,
                "removed",
                format!(" {prefix} from the allow list{by}"),
            )
        }
        What::LimitsSet {
            target,
            limits,
            observe,
            until: end,
            reason: why,
            by,
        } => {
            let target = phrase::target(*target);
            let limits = phrase::and(limits);
            let dry_run = phrase::when(*observe, " (dry run)");
            let (until, why) = (until(*end), reason(why.as_deref()));
            let rest = format!(" {target} to {limits}{dry_run} by {by} {until}{why}");
            (WARNING, "limited", rest)
        }
        What::LimitsEnded {
            target,
            starts_anew,
        } => {
            let target = phrase::target(*target);
            let reset = phrase::when(*starts_anew, "; usage counters reset");
            let rest = format!(": {target}; the configuration applies again{reset}");
            (WARNING, "runtime limits expired", rest)
        }
        What::LimitsRemoved { target, by } => {
            let target = phrase::target(*target);
            let by = by_whom(by.as_deref());
            (
                WARNING,
                "removed",
                format!(" runtime limits of {target}{by}"),
            )
        }
        What::ChallengeBegan { when, is_of_dns } => {
            let whose = if *is_of_dns { "DNS" } else { "TCP" };
            let rest = format!(" is on ({when}): unverified {whose} clients are challenged");
            (BAD, "challenge", rest)
        }
        What::ChallengePaused { until } => {
            let until = phrase::moment(*until, now);
            let rest = format!(" is paused until {until}: no client completed it");
            (BAD, "challenge", rest)
        }
        What::ChallengeEnded { is_of_dns } => {
            let whose = if *is_of_dns { "DNS" } else { "TCP" };
            (GOOD, "challenge", format!(" of {whose} clients is off"))
        }
        What::Drop(dropped) => drop(dropped),
        What::Reloaded { changes } => {
            let rest = format!(" the configuration: {}", different(changes));
            (HEAD, "reloaded", rest)
        }
        What::ReloadRefused { error } => {
            let error = error.replace('\n', "; ");
            let rest = format!("; the previous configuration is still active: {error}");
            (BAD, "reload failed", rest)
        }
        What::TrialBegan {
            file,
            until: end,
            changes,
            by,
        } => {
            let until = until(Some(*end));
            let rest = format!(" {file} {until} by {by}: {}", different(changes));
            (WARNING, "trying", rest)
        }
        What::TrialConfirmed { file, by } => (GOOD, "confirmed", format!(" {file} by {by}")),
        What::TrialRolledBack { file, by } => {
            let by = match by {
                Some(by) => by_whom(Some(by)),
                None => ", not confirmed in time".to_owned(),
            };
            let rest = format!(" {file}{by}: restored the previous configuration");
            (WARNING, "rolled back", rest)
        }
        What::Detached { interfaces, by } => {
            let from = phrase::and(interfaces);
            let rest = format!(" from {from} by {by}: limits and bans no longer apply there");
            (BAD, "detached", rest)
        }
        What::PassAllOn { until: end, by } => {
            let until = until(*end);
            let rest = format!(" is on {until} by {by}: limits and bans are not enforced");
            (BAD, "pass-all", rest)
        }
        What::PassAllOff { by } => {
            let by = by_whom(by.as_deref());
            let rest = format!(" is off{by}: limits and bans are enforced");
            (GOOD, "pass-all", rest)
        }
        What::InterfaceAttached {
            interface,
            mode,
            remark,
        } => {
            let remark = remark.iter().map(|it| format!("; {it}"));
            let remark: String = remark.collect();
            let rest = format!(" to {interface} in {mode} mode{remark}");
            (GOOD, "attached", rest)
        }
        What::InterfaceLost { interface, why } => {
            (BAD, "not enforced", format!(" on {interface}: {why}"))
        }
        What::UsageReset { why } => (BAD, "usage is reset", format!(": {why}")),
        What::AttackBegan(attack) => {
            let attack = phrase::attack(attack, now);
            (BAD, "attack began", format!(": {attack}"))
        }
        What::AttackEnded(attack) => {
            let attack = phrase::attack(attack, now);
            (GOOD, "attack ended", format!(": {attack}"))
        }
        What::TroubleBegan { what, error } => (BAD, "failure", format!(" of {what}: {error}")),
        What::TroubleEnded { what } => (GOOD, "recovered", format!(": {what}")),
        What::Lost { count } => {
            let rest = format!(" {count} events: they arrived faster than they were read");
            (WARNING, "lost", rest)
        }
    }
}

/// `dropped 203.0.113.7 (udp to 192.0.2.1 port 53 from port 4444) on eth0: limited, 1000 packets
/// per 1s of policy default`
fn drop(dropped: &Dropped) -> (Style, &'static str, String) {
    let source = dropped.from.unwrap_or(dropped.source);
    let packet = match dropped.packet.to_string().as_str() {
        "" => String::new(),
        packet => format!(" ({packet})"),
    };
    let (interface, why) = (&dropped.interface, &dropped.reason);
    let limit = dropped.limit.iter().map(|limit| format!(", {limit}"));
    let policy = dropped.policy.as_deref();
    let policy = policy.map(|policy| format!(" of policy {policy}"));
    let by: String = limit.chain(policy).collect();
    let (style, verb) = if dropped.observed {
        (WARNING, "would drop")
    } else {
        (BAD, "dropped")
    };
    let rest = format!(" {source}{packet} on {interface}: {why}{by}");
    (style, verb, rest)
}

fn author(allow: &Allow) -> &str {
    allow.author.as_deref().unwrap_or("unknown")
}

fn different(changes: &[String]) -> String {
    if changes.is_empty() {
        return "no changes".to_owned();
    }
    changes.join("; ")
}

fn reason(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

fn by_whom(by: Option<&str>) -> String {
    by.map_or_else(String::new, |by| format!(" by {by}"))
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
    fn what_is_not_enforced_is_reported_and_that_it_is_again() {
        check(
            r#""event":"interface-lost","interface":"eth0","why":"there is no such interface""#,
            "not enforced on eth0: there is no such interface",
        );
        check(
            r#""event":"usage-reset","why":"another version of ratelimitd made the tables""#,
            "usage is reset: another version of ratelimitd made the tables",
        );
        check(
            r#""event":"interface-attached","interface":"eth0","mode":"native","remark":null"#,
            "attached to eth0 in native mode",
        );
        check(
            r#""event":"trouble-began","what":"metrics","error":"the port is taken""#,
            "failure of metrics: the port is taken",
        );
    }

    #[test]
    fn that_everything_passes_is_reported_and_that_it_is_over() {
        check(
            r#""event":"trial-began","file":"new.toml","until":"2026-03-02T15:00:00Z","changes":["observe: false -> true"],"by":"root""#,
            "trying new.toml until 15:00:00 by root: observe: false -> true",
        );
        check(
            r#""event":"trial-confirmed","file":"new.toml","by":"root""#,
            "confirmed new.toml by root",
        );
        check(
            r#""event":"trial-rolled-back","file":"new.toml","by":"root""#,
            "rolled back new.toml by root: restored the previous configuration",
        );
        check(
            r#""event":"trial-rolled-back","file":"new.toml","by":null"#,
            "rolled back new.toml, not confirmed in time: restored the previous configuration",
        );
        check(
            r#""event":"pass-all-on","until":"2026-03-02T15:00:00Z","by":"root""#,
            "pass-all is on until 15:00:00 by root: limits and bans are not enforced",
        );
        check(
            r#""event":"pass-all-off","by":null"#,
            "pass-all is off: limits and bans are enforced",
        );
    }

    #[test]
    fn a_ban_says_by_whom_until_when_and_why() {
        let ban = r#""prefix":"192.0.2.1/32","until":"2026-03-02T14:42:07Z","since":"2026-03-02T14:32:07Z","reason":"scan","by":"root","origin":"manual""#;
        check(
            &format!(r#""event":"ban-added",{ban}"#),
            "banned 192.0.2.1 by root until 14:42:07: scan",
        );
        check(
            &format!(r#""event":"ban-ended",{ban}"#),
            "ban expired: 192.0.2.1 (set by root)",
        );
        check(
            &format!(r#""event":"ban-removed",{ban},"removed_by":"eve""#),
            "unbanned 192.0.2.1 by eve",
        );
        check(
            r#""event":"bans","change":"added","count":5000,"origin":"list:drop","by":null"#,
            "banned 5000 prefixes from list:drop",
        );
    }

    #[test]
    fn an_allow_and_limits_say_until_when_and_why() {
        let allow = r#""prefix":"192.0.2.1/32","until":"2026-03-02T14:42:07Z","since":"2026-03-02T14:32:07Z","reason":"migration","by":"root","origin":"manual""#;
        check(
            &format!(r#""event":"allow-added",{allow}"#),
            "allowed 192.0.2.1 by root until 14:42:07: migration",
        );
        check(
            &format!(r#""event":"allow-ended",{allow}"#),
            "allow expired: 192.0.2.1 (set by root)",
        );
        check(
            r#""event":"limits-set","prefix":null,"limits":[{"packets":1,"per":"1s"}],"observe":false,"until":"2026-03-02T14:42:07Z","reason":"crawler","by":"root""#,
            "limited the default policy to 1 packet per 1s by root until 14:42:07: crawler",
        );
        check(
            r#""event":"limits-ended","prefix":"192.0.2.1/32""#,
            "runtime limits expired: 192.0.2.1; the configuration applies again",
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
