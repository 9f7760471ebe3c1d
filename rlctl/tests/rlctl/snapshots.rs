//! The output of each verb for an answer that is always the same: as text, and with `--json`.
//!
//! `snapshots/` has what was printed. `INSTA_UPDATE=always cargo test -p rlctl
//! snapshots` writes it anew; `git diff` shows what changed for users.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, ScriptedDaemon},
    run,
};

const SINCE: &str = "2026-03-02T14:32:07Z";

#[test]
fn every_verb_prints_what_it_printed() {
    for (arguments, answer) in verbs() {
        let mut seen = String::new();
        for json in [&[][..], &["--json"]] {
            let daemon = ScriptedDaemon::start(daemon_of(arguments, &answer));
            let words: Vec<&str> = arguments.split(' ').chain(json.iter().copied()).collect();
            let output = run(&daemon, &words, "", &[]);
            let directory = daemon.directory().to_str().unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap().replace(directory, "$DIR");
            let code = output.status.code().unwrap();
            let _ = writeln!(seen, "$ rlctl {}", words.join(" "));
            seen += &without_age(&text(output.stdout));
            seen += &text(output.stderr);
            let _ = writeln!(seen, "exit code {code}\n");
        }
        let name = arguments.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        insta::assert_snapshot!(name, seen);
    }
}

#[test]
fn every_verb_helps_as_it_helped() {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    let mut verbs: Vec<String> = vec![];
    for (arguments, _) in verbs_and_others() {
        let words = arguments.split(' ');
        // A verb, and what is done with it where it is one of several things.
        let verb = words.take_while(|word| {
            word.chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '-')
        });
        let verb = verb
            .take(2)
            .filter(|word| !word.starts_with('-'))
            .collect::<Vec<_>>()
            .join(" ");
        if !verbs.contains(&verb) {
            verbs.push(verb);
        }
    }
    let directory = daemon.directory().to_str().unwrap();
    let mut seen = String::new();
    for verb in verbs {
        let words: Vec<&str> = verb.split(' ').chain(["-h"]).collect();
        let output = run(&daemon, &words, "", &[]);
        assert!(output.status.success(), "{verb}");
        let help = String::from_utf8(output.stdout)
            .unwrap()
            .replace(directory, "$DIR");
        let _ = writeln!(
            seen,
            "$ rlctl {verb} -h
{help}"
        );
    }
    insta::assert_snapshot!("help", seen);
}

/// Replaces the uptime of the daemon, which differs in each run.
fn without_age(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(", up ") {
        Some((before, _)) => format!("{before}, up TIME\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// The verbs that have an answer of the daemon, and those that have none or more than one.
fn verbs_and_others() -> Vec<(&'static str, Value)> {
    let others = [
        "capture",
        "config check",
        "demo",
        "doctor",
        "events",
        "export",
        "import",
        "protect",
        "simulate",
    ];
    let others = others.into_iter().map(|verb| (verb, Value::Null));
    verbs().into_iter().chain(others).collect()
}

/// A daemon with the answer to a command line.
pub fn daemon_of(arguments: &str, answer: &Value) -> Daemon {
    match arguments {
        // It asks for the lists, too.
        "list bans" => Daemon::ByPath(vec![
            ("/v1/bans", answer.to_string()),
            ("/v1/lists", "[]".to_owned()),
        ]),
        _ => Daemon::Answers(200, answer.to_string()),
    }
}

/// A command line of each verb, and what the daemon answers.
#[expect(clippy::too_many_lines, reason = "a few lines per verb")]
pub fn verbs() -> Vec<(&'static str, Value)> {
    let limit = json!({"packets": 1000, "per": "1s", "algorithm": "fixed-window"});
    let bucket = json!({
        "bytes": 50_000_000, "per": "1s", "algorithm": "token-bucket", "burst": 100_000_000,
        "match": "tcp-syn"
    });
    let ban = json!({
        "prefix": "203.0.113.7", "until": null, "since": SINCE, "reason": "login flood",
        "by": "root", "origin": "manual"
    });
    let allow = json!({
        "prefix": "192.0.2.10", "until": null, "since": SINCE, "reason": "monitoring", "by": "root",
        "origin": "manual"
    });
    let policy = json!({"name": "default", "prefixes": [], "limits": [limit, bucket],
        "observe": false, "origin": "config",
        "ban": {"after": 5000, "within": "10s", "for": "10m", "factor": 2, "max": "24h",
            "forgeable": "limit"}});
    let state =
        json!({"limit": limit, "used": 800, "room_in_seconds": 0.0, "clears_in_seconds": 0.5});
    let changed = |added: usize, removed: usize| {
        json!({
            "added": added, "updated": 0, "removed": removed, "absent": []
        })
    };
    let attempt = |outcome: &str, key: &str| {
        json!({"file": "new.toml", "main": "/etc/ratelimit/config.toml", "installed": false,
                "outcome": outcome, key: SINCE})
    };
    vec![
        (
            "status",
            json!({"version": "1.0.0", "pid": 812, "started": SINCE,
            "config_files": ["/etc/ratelimit/config.toml"], "config_applied": SINCE,
            "config_error": null, "observe": true, "bans": 3, "allows": 1, "policies": 2,
            "protected": 4,
            "clock": {"clock": "coarse", "wish": "auto", "tick_seconds": 0.004, "suits": true,
                "decides": null},
            "interfaces": [
                {"name": "eth0", "attached": true, "mode_wanted": "auto", "mode": "native"}
            ],
            "maps": [
                {"name": "SOURCES_V4", "entries": 1200, "capacity": 262_144,
                    "memory_bytes": 35_651_584}
            ],
            "database": {"damaged": null, "aside": 0, "inactive": [
                {"policy": "10.0.0.0/8", "error": "there are too many"}
            ]}}),
        ),
        ("ban 203.0.113.7 --reason scanner", changed(1, 0)),
        ("unban 203.0.113.7", changed(0, 1)),
        ("allow add 192.0.2.10", changed(1, 0)),
        ("allow rm 192.0.2.10", changed(0, 1)),
        ("limit set --packets 1000 --per 1s", changed(1, 0)),
        (
            "limit set --limit packets=5,per=1s --limit bytes=5MB,per=1s,match=dns",
            changed(1, 0),
        ),
        ("limit rm", changed(0, 1)),
        ("list bans", json!([ban])),
        ("list allows", json!([allow])),
        ("list limits", json!([policy])),
        (
            "list lists",
            json!([{"name": "spamhaus", "action": "ban", "entries": 1402,
                "file": "/etc/ratelimit/drop.txt", "every_seconds": 3600.0,
            "since": SINCE, "read": null, "errors": 0, "error": null}]),
        ),
        ("import --remove spamhaus", changed(0, 1402)),
        (
            "check 203.0.113.7",
            json!({"address": "203.0.113.7", "source": "203.0.113.7", "action": "drop",
                "reason": "banned", "rule": "203.0.113.7",
            "until": null, "ban": ban, "policy": "default", "limits": [state],
            "refused_packets": 12, "refused_last": SINCE,
            "covering": [{"table": "ban", "prefix": "203.0.113.7", "until": null, "since": SINCE,
                "reason": "login flood", "by": "root",
                "origin": "manual", "decides": true}]}),
        ),
        (
            "keys users",
            json!(
                [
                    {"space": "users", "key": "alice", "limit": "15 requests per 1s",
                        "capacity": 15, "used": 12, "clears_in_seconds": 0.4}
                ]
            ),
        ),
        (
            "keys users alice",
            json!({"space": "users", "key": "alice", "limits": [{"limit": "15 requests per 1s",
                "capacity": 15, "used": 12, "clears_in_seconds": 0.4},
                {"limit": "10000 requests per 1d", "capacity": 10_000, "used": 12,
                    "clears_in_seconds": 80_000.0}]}),
        ),
        ("keys users alice --reset", json!({"reset": true})),
        (
            "top",
            json!([{"source": "203.0.113.7", "policy": "default", "limit": state,
                "refused_packets": 12},
            {"source": "2001:db8:1::/64", "policy": "partner", "limit": null,
                "refused_packets": 0}]),
        ),
        (
            "stats",
            json!([{"interface": "eth0", "family": "ipv4", "action": "pass", "reason": "conforming",
                "packets": 1_234_567, "bytes": 987_654_321},
            {"interface": "eth0", "family": "ipv6", "action": "drop", "reason": "limited",
                "packets": 12, "bytes": 720}]),
        ),
        (
            "stats --since 30d",
            json!({"from": SINCE, "to": "2026-03-02T16:32:07Z", "step_seconds": 3600, "levels": [],
                "observed_seconds": [1200, 0],
            "verdicts": [{"action": "pass", "reason": "conforming", "packets": [120_000, 0],
                "bytes": [7_200_000, 0]},
                {"action": "drop", "reason": "limited", "packets": [600, 0], "bytes": [36_000, 0]}],
            "policies": [{"policy": "default", "packets": [120_600, 0], "bytes": [7_236_000, 0]}],
            "attacks": [{"kind": "syn-flood", "subject": "to 10.10.10.10", "since": SINCE,
                "seen": "2026-03-02T14:40:07Z",
                "packets_per_second": 90_000, "sources": 700}]}),
        ),
        (
            "suggest",
            json!({"version": "1.0.0", "pid": 812, "started": SINCE, "config_files": [],
            "config_applied": SINCE, "config_error": null, "observe": false, "bans": 0,
            "allows": 0, "policies": 1, "protected": 0,
            "clock": {"clock": "coarse", "wish": "auto", "tick_seconds": 0.004, "suits": true,
                "decides": null},
            "interfaces": [], "maps": [],
            "attacks": [{"kind": "syn-flood", "subject": "to 10.10.10.10", "since": SINCE,
                "seen": "2026-03-02T14:40:07Z",
                "packets_per_second": 90_000, "sources": 700}]}),
        ),
        (
            "reload",
            json!({"files": ["/etc/ratelimit/config.toml"], "changes": [
                "policy default: 500 packets per 1s became 1000 packets per 1s"
            ]}),
        ),
        (
            "config show --with-origin",
            json!([{"key": "policy.192.0.2.0/24.limits",
                "value": "[{ algorithm = \"fixed-window\", packets = 5, per = \"1s\" }]",
                "origin": "runtime", "by": "root"},
            {"key": "observe", "value": "true", "origin": "file",
                "file": "/etc/ratelimit/config.toml", "line": 3},
            {"key": "clock", "value": "\"auto\"", "origin": "default"}]),
        ),
        ("confirm", attempt("confirmed", "at")),
        ("rollback", attempt("rolled-back", "at")),
        (
            "list protected",
            json!([{"prefix": "192.0.2.1", "reasons": [
                "the default gateway of eth0"
            ], "spared": false},
            {"prefix": "198.51.100.7", "reasons": ["an SSH session of root"], "spared": true}]),
        ),
        (
            "pass-all on",
            json!({"since": SINCE, "until": null, "by": "root"}),
        ),
        ("pass-all off", json!(null)),
        ("detach", json!({"interfaces": ["eth0", "eth1"]})),
    ]
}
