//! The verbs that change something.

use ratelimit_core::{
    api::{Changed, LimitsNow, Origin, Reloaded, RemainingBan, Unfolded},
    prefix::Prefix,
};

use crate::{
    Expected, check, check_view,
    daemon::{Daemon, ScriptedDaemon, answers},
    moment, run,
};

#[test]
fn ban_says_whom_for_how_long_and_until_when() {
    let (until, reported) = moment(1);
    check_view(
        &["ban", "1.2.3.4", "--for", "10m", "--reason", "port scan"],
        answers(&Changed {
            until: Some(until),
            ..changed(1, 0)
        }),
        r#"POST /v1/bans {"prefixes":["1.2.3.4"],"seconds":600.0,"reason":"port scan"}"#,
        &format!("banned 1.2.3.4 for 10m (until {reported})"),
    );
}

#[test]
fn ban_is_forever_when_no_time_is_given() {
    check_view(
        &["ban", "2001:db8::/48"],
        answers(&changed(1, 0)),
        r#"POST /v1/bans {"prefixes":["2001:db8::/48"],"seconds":null,"reason":null}"#,
        "banned 2001:db8::/48 forever",
    );
}

#[test]
fn ban_takes_a_list_from_a_file() {
    check_view(
        &["ban", "@$DIR/list.txt", "--for", "forever"],
        answers(&changed(2, 0)),
        r#"POST /v1/bans {"prefixes":["192.0.2.1","192.0.2.0/24"],"seconds":null,"forever":true,"reason":null}"#,
        "banned 2 prefixes forever",
    );
}

#[test]
fn ban_sends_a_long_list_from_stdin_in_parts_and_says_so() {
    let daemon = ScriptedDaemon::start(answers(&changed(600, 0)));
    let list: Vec<String> = (0..1200)
        .map(|n| format!("10.0.{}.{}", n / 200, n % 200))
        .collect();
    let output = run(&daemon, &["ban", "-"], &list.join("\n"), &[]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "banned 1200 prefixes forever\n"
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "note: sent as 2 requests of up to 1000 prefixes; each request succeeds or fails as a \
         whole\n"
    );
    assert_eq!(daemon.requests().len(), 2);
}

#[test]
fn a_program_bans_and_unbans_under_its_name() {
    check_view(
        &[
            "ban",
            "1.2.3.4",
            "--for",
            "600",
            "--program",
            "fail2ban/sshd",
        ],
        answers(&changed(1, 0)),
        r#"POST /v1/bans/program {"program":"fail2ban/sshd","prefixes":["1.2.3.4"],"seconds":600.0,"reason":null}"#,
        "banned 1.2.3.4 for 10m",
    );
    for (answer, stdout) in [
        (removed(1, &[]), "removed 1 ban of 1.2.3.4 by fail2ban/sshd"),
        (
            removed(0, &["1.2.3.4"]),
            "removed 0 bans of 1.2.3.4 by fail2ban/sshd",
        ),
    ] {
        check(
            &["unban", "1.2.3.4", "--program", "fail2ban/sshd"],
            answers(&answer),
            &Expected {
                request: r#"DELETE /v1/bans/program {"program":"fail2ban/sshd","prefixes":["1.2.3.4"]}"#,
                stdout,
                stderr: "",
                code: 0,
            },
        );
    }
}

#[test]
fn unban_says_who_was_banned_and_who_was_not() {
    check(
        &["unban", "192.0.2.1", "192.0.2.2"],
        answers(&removed(1, &["192.0.2.2"])),
        &Expected {
            request: r#"DELETE /v1/bans {"prefixes":["192.0.2.1","192.0.2.2"]}"#,
            stdout: "unbanned 192.0.2.1",
            stderr: "note: 192.0.2.2 is not banned",
            code: 0,
        },
    );
}

#[test]
fn a_change_says_which_folds_it_lifted() {
    let answer = Changed {
        unfolded: vec![Unfolded {
            prefix: "192.0.2.0/24".parse().unwrap(),
            bans: 1,
        }],
        ..removed(1, &[])
    };
    let note = "note: 192.0.2.0/24 is no longer folded: 1 ban inside it stays";
    for (arguments, request, stdout) in [
        (
            &["unban", "192.0.2.1"][..],
            r#"DELETE /v1/bans {"prefixes":["192.0.2.1"]}"#,
            "unbanned 192.0.2.1",
        ),
        (
            &["unban", "--within", "192.0.2.1"],
            r#"DELETE /v1/bans/matching {"filter":{"within":"192.0.2.1"},"all":false}"#,
            "removed 1 ban",
        ),
        (
            &["unban", "192.0.2.1", "--program", "sshd"],
            r#"DELETE /v1/bans/program {"program":"sshd","prefixes":["192.0.2.1"]}"#,
            "removed 1 ban of 192.0.2.1 by sshd",
        ),
    ] {
        let (stderr, code) = (note, 0);
        let expected = Expected {
            request,
            stdout,
            stderr,
            code,
        };
        check(arguments, answers(&answer), &expected);
    }
}

#[test]
fn unban_says_that_it_was_the_source_of_an_address() {
    let source: Prefix = "2001:db8:5::/64".parse().unwrap();
    for (count, expected) in [
        (1, "unbanned 2001:db8:5::/64, the source of 2001:db8:5::1"),
        (2, "unbanned 2001:db8:5::1 and its source 2001:db8:5::/64"),
    ] {
        let answer = Changed {
            sources: vec![source],
            ..removed(count, &[])
        };
        check(
            &["unban", "2001:db8:5::1"],
            answers(&answer),
            &Expected {
                request: r#"DELETE /v1/bans {"prefixes":[],"sources":["2001:db8:5::1"]}"#,
                stdout: expected,
                stderr: "",
                code: 0,
            },
        );
    }
}

#[test]
fn unban_is_refused_when_nobody_was_banned() {
    check(
        &["unban", "192.0.2.2"],
        answers(&removed(0, &["192.0.2.2"])),
        &Expected {
            request: r#"DELETE /v1/bans {"prefixes":["192.0.2.2"]}"#,
            stdout: "",
            stderr: "error: 192.0.2.2 is not banned\nhint: see `rlctl check 192.0.2.2`",
            code: 1,
        },
    );
    check(
        &["unban", "@$DIR/list.txt"],
        answers(&removed(0, &["192.0.2.1", "192.0.2.0/24"])),
        &Expected {
            request: r#"DELETE /v1/bans {"prefixes":["192.0.2.1","192.0.2.0/24"]}"#,
            stdout: "",
            stderr: "error: all 2 prefixes are not banned",
            code: 1,
        },
    );
}

#[test]
fn unban_names_the_lists_that_still_ban() {
    let held = |prefix: &str, list: &str| RemainingBan {
        prefix: prefix.parse().unwrap(),
        banned: prefix.parse().unwrap(),
        origin: Origin::list(list),
    };
    check(
        &["unban", "192.0.2.1", "192.0.2.2"],
        answers(&Changed {
            held: vec![
                held("192.0.2.1", "drop"),
                held("192.0.2.1", "edrop"),
                held("192.0.2.2", "drop"),
            ],
            ..removed(1, &["192.0.2.2"])
        }),
        &Expected {
            request: r#"DELETE /v1/bans {"prefixes":["192.0.2.1","192.0.2.2"]}"#,
            stdout: "unbanned 192.0.2.1",
            stderr: "note: 192.0.2.1 stays banned by the lists drop and edrop\n\
                     note: 192.0.2.2 stays banned by the list drop",
            code: 0,
        },
    );
    check(
        &["unban", "192.0.2.2"],
        answers(&Changed {
            held: vec![held("192.0.2.2", "drop")],
            ..removed(0, &["192.0.2.2"])
        }),
        &Expected {
            request: r#"DELETE /v1/bans {"prefixes":["192.0.2.2"]}"#,
            stdout: "",
            stderr: "error: 192.0.2.2 is banned by the list drop\n\
                     hint: to let it pass: rlctl allow add 192.0.2.2",
            code: 1,
        },
    );
}

#[test]
fn unban_names_the_bans_of_wider_prefixes() {
    let held = |banned: &str, origin| RemainingBan {
        prefix: "192.0.2.1".parse().unwrap(),
        banned: banned.parse().unwrap(),
        origin,
    };
    let wider = vec![
        held("192.0.2.0/24", Origin::Automatic),
        held("192.0.0.0/16", Origin::list("drop")),
    ];
    check(
        &["unban", "192.0.2.1"],
        answers(&Changed {
            held: wider.clone(),
            ..removed(1, &[])
        }),
        &Expected {
            request: r#"DELETE /v1/bans {"prefixes":["192.0.2.1"]}"#,
            stdout: "unbanned 192.0.2.1",
            stderr: "note: 192.0.2.1 stays banned by the ban of 192.0.2.0/24 (automatic) and the \
                     list drop",
            code: 0,
        },
    );
    check(
        &["unban", "192.0.2.1"],
        answers(&Changed {
            held: wider[..1].to_vec(),
            ..removed(0, &["192.0.2.1"])
        }),
        &Expected {
            request: r#"DELETE /v1/bans {"prefixes":["192.0.2.1"]}"#,
            stdout: "",
            stderr: "error: 192.0.2.1 is banned by the ban of 192.0.2.0/24 (automatic)\n\
                     hint: to let it pass: rlctl allow add 192.0.2.1",
            code: 1,
        },
    );
}

#[test]
fn allow_add_says_who_is_allowed() {
    check_view(
        &["allow", "add", "192.0.2.10", "--reason", "monitoring"],
        answers(&changed(1, 0)),
        r#"POST /v1/allows {"prefixes":["192.0.2.10"],"seconds":null,"reason":"monitoring"}"#,
        "allowed 192.0.2.10 forever",
    );
    let (until, reported) = moment(1);
    check_view(
        &["allow", "add", "192.0.2.10", "--for", "2h"],
        answers(&Changed {
            until: Some(until),
            ..changed(0, 1)
        }),
        r#"POST /v1/allows {"prefixes":["192.0.2.10"],"seconds":7200.0,"reason":null}"#,
        &format!("allowed 192.0.2.10 for 2h (until {reported}), replacing an earlier entry"),
    );
    check_view(
        &["allow", "add", "192.0.2.10"],
        answers(&changed(0, 0)),
        r#"POST /v1/allows {"prefixes":["192.0.2.10"],"seconds":null,"reason":null}"#,
        "allowed 192.0.2.10 forever, no change",
    );
}

#[test]
fn allow_rm_says_who_is_off_the_list() {
    let request = r#"DELETE /v1/allows {"prefixes":["192.0.2.10"]}"#;
    check(
        &["allow", "rm", "192.0.2.10"],
        answers(&removed(1, &[])),
        &Expected {
            request,
            stdout: "removed 192.0.2.10 from the allow list",
            stderr: "",
            code: 0,
        },
    );
    check(
        &["allow", "rm", "192.0.2.10"],
        answers(&removed(0, &["192.0.2.10"])),
        &Expected {
            request,
            stdout: "",
            stderr: "error: 192.0.2.10 is not on the allow list\n\
                     hint: see `rlctl check 192.0.2.10`",
            code: 1,
        },
    );
}

#[test]
fn allow_rm_of_all_nodes_says_where_they_are_off_the_list() {
    for (waits_for_store, nodes) in [
        (false, "on all nodes"),
        (
            true,
            "here, and on other nodes when the cluster store returns",
        ),
    ] {
        check_view(
            &["allow", "rm", "192.0.2.10", "--cluster"],
            answers(&Changed {
                waits_for_store,
                ..removed(1, &[])
            }),
            r#"DELETE /v1/cluster/allows {"prefixes":["192.0.2.10"]}"#,
            &format!("removed 192.0.2.10 from the allow list {nodes}"),
        );
    }
}

#[test]
fn limit_set_sends_each_amount_with_its_window() {
    check_view(
        &[
            "limit",
            "set",
            "--prefix",
            "203.0.113.0/24",
            "--limit",
            "packets=1000,per=1s",
            "--limit",
            "bytes=50MB,per=1m,algorithm=token-bucket,burst=100MB",
        ],
        answers(&changed(1, 0)),
        concat!(
            r#"POST /v1/limits {"prefix":"203.0.113.0/24","limits":["#,
            r#"{"packets":1000,"per":"1s","algorithm":"fixed-window"},"#,
            r#"{"bytes":50000000,"per":"1m","algorithm":"token-bucket","burst":100000000}],"observe":false,"seconds":null,"reason":null}"#
        ),
        "limited 203.0.113.0/24 to 1000 packets per 1s and 50MB per 1m (token-bucket, burst \
         100MB), forever",
    );
}

#[test]
fn limit_set_of_the_default_policy_can_be_a_dry_run() {
    check_view(
        &["limit", "set", "--packets", "5", "--per", "1s", "--observe"],
        answers(&changed(1, 0)),
        concat!(
            r#"POST /v1/limits {"prefix":null,"limits":["#,
            r#"{"packets":5,"per":"1s","algorithm":"fixed-window"}],"observe":true,"seconds":null,"reason":null}"#
        ),
        "dry run for the default policy: 5 packets per 1s, forever",
    );
}

#[test]
fn limit_set_says_what_is_in_force_and_what_was_replaced() {
    let spec = |text: &str| serde_json::from_str(text).unwrap();
    let [named, before, other] = [
        r#"{"packets":5000,"per":"1s"}"#,
        r#"{"packets":1000,"per":"1s"}"#,
        r#"{"packets":20,"per":"1s","match":"tcp-syn"}"#,
    ]
    .map(spec);
    let now = LimitsNow {
        limits: vec![named, other],
        replaced: vec![before],
        ban: Some(serde_json::from_str(r#"{"after":5000,"within":"10s","for":"10m","factor":2,"max":"24h","forgeable":"limit"}"#).unwrap()),
        observe_before: true,
        ..LimitsNow::default()
    };
    let answer = Changed {
        limits: Some(now),
        ..changed(1, 0)
    };
    check_view(
        &["limit", "set", "--packets", "5000", "--per", "1s"],
        answers(&answer),
        concat!(
            r#"POST /v1/limits {"prefix":null,"limits":["#,
            r#"{"packets":5000,"per":"1s","algorithm":"fixed-window"}],"observe":false,"seconds":null,"reason":null}"#
        ),
        "limited the default policy to 5000 packets per 1s, forever, replacing 1000 packets per 1s
  also in force: 20 packets per 1s of tcp-syn
  after 5000 drops within 10s: banned for 10m, then 2 times as long, up to 1d
  dry run ended: these limits drop packets",
    );
}

#[test]
fn limit_set_says_that_what_was_used_starts_anew() {
    let anew = Changed {
        starts_anew: true,
        ..changed(1, 0)
    };
    check_view(
        &["limit", "set", "--packets", "5", "--per", "1s"],
        answers(&anew),
        concat!(
            r#"POST /v1/limits {"prefix":null,"limits":["#,
            r#"{"packets":5,"per":"1s","algorithm":"fixed-window"}],"observe":false,"seconds":null,"reason":null}"#
        ),
        "limited the default policy to 5 packets per 1s, forever; usage counters reset",
    );
}

#[test]
fn limit_set_says_for_how_long_and_until_when() {
    let (until, reported) = moment(1);
    let answer = |added, updated, ends_anew| {
        answers(&Changed {
            until: Some(until),
            ends_anew,
            ..changed(added, updated)
        })
    };
    let line = "limit set --for 2h --packets 5 --per 1s --reason crawler";
    let line: Vec<&str> = line.split(' ').collect();
    let said = format!("limited the default policy to 5 packets per 1s, for 2h (until {reported})");
    for (answer, novelty) in [
        (answer(1, 0, false), ""),
        (answer(0, 1, false), ", replacing an earlier entry"),
        (
            answer(1, 0, true),
            "; at the end, usage is that from before",
        ),
    ] {
        check_view(
            &line,
            answer,
            concat!(
                r#"POST /v1/limits {"prefix":null,"limits":["#,
                r#"{"packets":5,"per":"1s","algorithm":"fixed-window"}],"#,
                r#""observe":false,"seconds":7200.0,"reason":"crawler"}"#
            ),
            &format!("{said}{novelty}"),
        );
    }
}

#[test]
fn limit_rm_says_whether_there_was_a_limit() {
    check_view(
        &["limit", "rm", "--prefix", "203.0.113.0/24"],
        answers(&removed(1, &[])),
        r#"DELETE /v1/limits {"prefix":"203.0.113.0/24"}"#,
        "removed the runtime limits of 203.0.113.0/24; the configuration applies again",
    );
    check(
        &["limit", "rm"],
        answers(&removed(0, &[])),
        &Expected {
            request: r#"DELETE /v1/limits {"prefix":null}"#,
            stdout: "",
            stderr: "error: the default policy has no runtime limits\n\
                     hint: see `rlctl list limits`",
            code: 1,
        },
    );
}

#[test]
fn reload_says_what_is_different() {
    let reloaded = |changes: &[&str]| {
        answers(&Reloaded {
            files: vec!["/etc/ratelimit/config.toml".to_owned()],
            changes: changes.iter().map(ToString::to_string).collect(),
            warnings: vec![],
        })
    };
    check_call(
        "reload",
        reloaded(&[]),
        "reloaded /etc/ratelimit/config.toml: no changes",
    );
    check_call(
        "reload",
        reloaded(&["allow: 192.0.2.10 added", "interface eth1: removed"]),
        "reloaded /etc/ratelimit/config.toml: 2 changes\n  \
         allow: 192.0.2.10 added\n  \
         interface eth1: removed",
    );
}

/// Checks a verb without arguments.
fn check_call(verb: &str, daemon: Daemon, stdout: &str) {
    let request = &format!("POST /v1/{verb}");
    check_view(&[verb], daemon, request, stdout);
}

fn changed(added: usize, updated: usize) -> Changed {
    Changed {
        added,
        updated,
        ..Changed::default()
    }
}

fn removed(removed: usize, absent: &[&str]) -> Changed {
    Changed {
        removed,
        absent: absent.iter().map(|text| text.parse().unwrap()).collect(),
        ..changed(0, 0)
    }
}
