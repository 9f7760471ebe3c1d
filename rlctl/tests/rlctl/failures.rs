//! Commands that fail, each with its exit code and the form of its message.

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    Expected, check,
    daemon::{Daemon, ScriptedDaemon, answers, refuses},
    run,
};

#[test]
fn a_prefix_with_host_bits_is_a_usage_error_that_names_both_readings() {
    check_usage(
        &["ban", "10.0.0.1/24"],
        "error: invalid prefix `10.0.0.1/24`: host bits are set, did you mean 10.0.0.0/24 or \
         10.0.0.1?\n\
         hint: add `--network` to mean 10.0.0.0/24",
    );
    check_usage(
        &["limit", "rm", "--prefix", "10.0.0.1/24"],
        "error: invalid prefix `10.0.0.1/24`: host bits are set, did you mean 10.0.0.0/24 or \
         10.0.0.1?",
    );
}

#[test]
fn the_old_name_of_a_verb_answers_with_the_new_one() {
    for (old, new) in [
        ("lists", "list lists"),
        ("lists rm spamhaus", "import --remove spamhaus"),
        ("lists fetch drop", "fetch drop"),
        ("history --interval 1m", "stats --since 1h --interval 1m"),
        (
            "history --since 7d --quota node",
            "stats --since 7d --quota node",
        ),
        ("support", "doctor --archive"),
        ("keys check users alice", "keys users alice"),
        ("keys reset users alice", "keys users alice --reset"),
        ("protected", "list protected"),
        ("allow list", "list allows"),
        ("limit list", "list limits"),
        ("diff", "reload --dry-run"),
        ("cluster nodes", "cluster status"),
    ] {
        let words: Vec<&str> = old.split(' ').collect();
        let verbs = if old.starts_with(['l', 'k', 'c', 'a']) {
            2
        } else {
            1
        };
        let verb = words[..words.len().min(verbs)].join(" ");
        let answer = format!("error: `rlctl {verb}` was renamed\nhint: run `rlctl {new}`");
        check_usage(&words, &answer);
    }
}

#[test]
fn repeated_stats_answer_with_what_replaced_them() {
    for (old, new) in [
        ("--watch", "--interval 1s"),
        ("--watch 5s --count 3", "--interval 5s --times 3"),
        ("--interval 10s -n 6", "--interval 10s --times 6"),
        ("-n 2", "--times 2"),
        ("--since 1h --watch 5s", "--interval 5s"),
    ] {
        let words: Vec<&str> = ["stats"].into_iter().chain(old.split(' ')).collect();
        let answer = format!(
            "error: `rlctl stats` prints one table\n\
             hint: run `rlctl top --batch {new}`"
        );
        check_usage(&words, &answer);
    }
}

#[test]
fn a_list_with_wrong_prefixes_is_not_sent() {
    check_usage(
        &["unban", "192.0.2.1", "1.2.3.400", "::/129"],
        "error: 2 invalid prefixes; nothing was sent\n  \
         invalid prefix `1.2.3.400`: not an IPv4 or IPv6 address or prefix\n  \
         invalid prefix `::/129`: IPv6 prefixes have at most 128 bits",
    );
    check_usage(
        &["ban", "@$DIR/none.txt"],
        "error: cannot read $DIR/none.txt: No such file or directory (os error 2)",
    );
}

#[test]
fn an_amount_without_its_window_is_a_usage_error() {
    check_usage(
        &["limit", "set", "--packets", "5"],
        "error: the limit has no window: write for example `--per 1s`, or `per=1s` in --limit",
    );
}

#[test]
fn a_number_of_packets_has_no_unit() {
    check_usage(
        &["limit", "set", "--packets", "5k", "--per", "1s"],
        "error: invalid value '5k' for '--packets <N>': `5k` is not a number of packets: write for \
         example 5000 or 5_000\n\n\
         For more information, try '--help'.",
    );
}

#[test]
fn check_asks_about_an_address() {
    for (text, why) in [
        (
            "198.51.100.0/24",
            "a prefix is no address: write one, such as 198.51.100.0; `rlctl list bans --within \
             198.51.100.0/24` shows its bans",
        ),
        (
            "1.2.3.400",
            "not an IPv4 or IPv6 address: write for example 203.0.113.7 or 2001:db8::1",
        ),
    ] {
        check_usage(
            &["check", text],
            &format!(
                "error: invalid value '{text}' for '<IP>': {why}\n\n\
                 For more information, try '--help'."
            ),
        );
    }
}

#[test]
fn what_selects_bans_selects_no_allows_and_limits() {
    for kind in ["allows", "limits"] {
        check_usage(
            &["list", kind, "--within", "192.0.2.0/24"],
            "error: --within, --origin, --reason-contains and --ending select bans: use them with \
             `rlctl list bans`",
        );
    }
}

#[test]
fn that_nobody_is_banned_is_told_who_would_end_all_bans() {
    let (request, stdout, code) = (
        "DELETE /v1/bans/matching {\"filter\":{},\"all\":true}",
        "",
        1,
    );
    let stderr = "error: no bans\nhint: bans of lists are not affected; remove a list with \
                  `rlctl import --remove`";
    check(
        &["unban", "--all"],
        answers(&json!({ "added": 0, "updated": 0, "removed": 0, "absent": [] })),
        &Expected {
            request,
            stdout,
            stderr,
            code,
        },
    );
}

#[test]
fn what_clap_refuses_is_a_usage_error() {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    for arguments in [
        &["bna"][..],
        &["ban", "::1", "--for", "10x"],
        &["check", "::/0"],
    ] {
        let output = run(&daemon, arguments, "", &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_refusal_ends_with_1_and_is_reported_with_its_hint() {
    check(
        &["reload"],
        refuses(
            422,
            "config.toml:3:1: unknown key `limit`",
            Some("did you mean `limits`?"),
        ),
        &Expected {
            request: "POST /v1/reload",
            stdout: "",
            stderr: "error: config.toml:3:1: unknown key `limit`\nhint: did you mean `limits`?",
            code: 1,
        },
    );
}

#[test]
fn an_error_that_is_no_refusal_is_told_by_its_status() {
    check(
        &["stats"],
        Daemon::Answers(500, "oh".to_owned()),
        &Expected {
            request: "GET /v1/stats",
            stdout: "",
            stderr: "error: the daemon returned status 500 Internal Server Error",
            code: 1,
        },
    );
}

#[test]
fn an_answer_that_is_not_understood_is_refused() {
    check(
        &["reload"],
        answers(&json!({"files": []})),
        &Expected {
            request: "POST /v1/reload",
            stdout: "",
            stderr: "error: unexpected response of the daemon: missing field `changes`\n\
                     hint: compare `rlctl --version` and `ratelimitd --version`",
            code: 1,
        },
    );
}

#[test]
fn no_socket_ends_with_4() {
    check(
        &["status"],
        Daemon::Absent,
        &Expected {
            request: "",
            stdout: "",
            stderr: "error: no daemon on $DIR/control.sock: the socket does not exist\n\
                     hint: is ratelimitd running? systemctl status ratelimitd; it listens on \
                     /run/ratelimit/control.sock unless [paths] names another directory",
            code: 4,
        },
    );
}

#[test]
fn without_a_daemon_detach_and_pass_all_name_another_way() {
    for verb in ["detach", "pass-all on"] {
        let words: Vec<&str> = verb.split(' ').collect();
        let stderr = format!(
            "error: no daemon on $DIR/control.sock: the socket does not exist\n\
             hint: the kernel enforces without a daemon: start it (systemctl start ratelimitd) and \
             repeat `rlctl {verb}`, or detach manually: rm -r /sys/fs/bpf/ratelimit (or the \
             directory in `pins` of [paths])"
        );
        let expected = Expected {
            request: "",
            stdout: "",
            stderr: &stderr,
            code: 4,
        };
        check(&words, Daemon::Absent, &expected);
    }
}

#[test]
fn a_daemon_that_hangs_up_ends_with_4() {
    check(
        &["detach"],
        Daemon::HangsUp,
        &Expected {
            request: "POST /v1/detach",
            stdout: "",
            stderr: "error: the daemon closed the connection on $DIR/control.sock: connection \
                     closed before message completed\n\
                     hint: the change may have been made: see `rlctl list`",
            code: 4,
        },
    );
}

#[test]
fn a_daemon_that_does_not_know_the_user_ends_with_5() {
    check(
        &["ban", "::1"],
        refuses(403, "user 1000 may not change anything", None),
        &Expected {
            request: r#"POST /v1/bans {"prefixes":[],"sources":["::1"],"seconds":null,"reason":null}"#,
            stdout: "",
            stderr: "error: user 1000 may not change anything\n\
                     hint: use sudo, or join the group of the socket",
            code: 5,
        },
    );
    check(
        &["status"],
        refuses(403, "user 1000 may not ask", Some("ask root")),
        &Expected {
            request: "GET /v1/status",
            stdout: "",
            stderr: "error: user 1000 may not ask\nhint: ask root",
            code: 5,
        },
    );
}

/// `snapshots.rs` has that of every verb.
#[test]
fn json_prints_what_a_newer_daemon_answers() {
    let changed = json!({"added": 1, "updated": 0, "removed": 1, "absent": [], "more": true});
    let daemon = ScriptedDaemon::start(answers(&changed));
    let output = run(&daemon, &["ban", "::1", "--json"], "", &[]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((answer, output.stderr), (changed, vec![]));
}

#[test]
fn json_errors_are_json_on_stderr() {
    let daemon = ScriptedDaemon::start(refuses(409, "no", Some("why")));
    check_json_error(
        &daemon,
        &["--json", "reload"],
        1,
        &json!({"error": "no", "hint": "why", "code": "refused"}),
    );
    let error = "invalid prefix `x`: not an IPv4 or IPv6 address or prefix";
    check_json_error(
        &daemon,
        &["ban", "x", "--json"],
        2,
        &json!({"error": error, "code": "usage"}),
    );
    let error = "unrecognized subcommand 'bna'";
    let hint = "Usage: rlctl [OPTIONS] [COMMAND]\n\nFor more information, try '--help'.";
    check_json_error(
        &daemon,
        &["bna", "--json"],
        2,
        &json!({"error": error, "hint": hint, "code": "usage"}),
    );
}

#[test]
fn config_check_needs_no_daemon() {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    let file = |name: &str, text: &str| {
        fs::write(daemon.directory().join(name), text).unwrap();
        run(
            &daemon,
            &["config", "check", &format!("$DIR/{name}")],
            "",
            &[],
        )
    };
    let right = "[[interface]]\n\
                 name = \"eth0\"\n\n\
                 [policy.default]\n\
                 limits = [{ packets = 5, per = \"1s\" }]\n";
    let output = file("right.toml", right);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let reported = "right.toml: valid (1 interface, 1 policy, 0 allows)\n";
    assert!(stdout.ends_with(reported), "{stdout}");

    let output = file("wrong.toml", &format!("bogus = 1\n{right}"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: "), "{stderr}");
    assert!(stderr.contains("wrong.toml:1:1"), "{stderr}");
}

#[test]
fn an_upgrade_renames_keys_and_keeps_the_file_before() {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    let path = |name: &str| daemon.directory().join(name);
    let upgrade = |name: &str| {
        let file = path(name).display().to_string();
        run(
            &daemon,
            &["--json", "config", "check", "--upgrade", &file],
            "",
            &[],
        )
    };
    let old = "[[interface]]\nname = \"eth0\" # up\n\n[policy.default]\nlimits = []\n";
    fs::create_dir(path("conf.d")).unwrap();
    fs::write(path("config.toml"), old).unwrap();
    fs::write(path("conf.d/a.toml"), "[history]\nkeep = \"7d\" # a week\n").unwrap();
    let output = upgrade("config.toml");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["renamed"][0]["new"], "retention", "{answer}");
    assert_eq!(answer["warnings"], json!([]));
    let text = |name: &str| fs::read_to_string(path(name)).unwrap();
    assert_eq!(text("config.toml"), old);
    assert_eq!(
        text("conf.d/a.toml"),
        "[history]\nretention = \"7d\" # a week\n"
    );
    assert_eq!(
        text("conf.d/a.toml.before"),
        "[history]\nkeep = \"7d\" # a week\n"
    );

    // With an error nothing is written, also not in the file without one.
    fs::write(path("conf.d/a.toml"), "[history]\nkeep = \"7d\"\n").unwrap();
    fs::write(path("config.toml"), format!("bogus = 1\n{old}")).unwrap();
    assert_eq!(upgrade("config.toml").status.code(), Some(1));
    assert_eq!(text("conf.d/a.toml"), "[history]\nkeep = \"7d\"\n");
}

#[test]
fn colour_is_for_terminals_and_only_without_no_color() {
    let daemon = ScriptedDaemon::start(refuses(409, "no", None));
    let stderr = |environment| {
        let output = run(&daemon, &["reload"], "", environment);
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(stderr(&[]), "error: no\n");
    assert_eq!(
        stderr(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]),
        "error: no\n"
    );
    assert!(stderr(&[("CLICOLOR_FORCE", "1")]).contains('\x1b'));
}

#[test]
fn the_flag_for_colour_beats_terminal_and_environment() {
    let daemon = ScriptedDaemon::start(refuses(409, "no", None));
    let stderr = |when, environment| {
        let output = run(&daemon, &["reload", "--color", when], "", environment);
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(stderr("always", &[("NO_COLOR", "1")]).contains('\x1b'));
    assert_eq!(stderr("never", &[("CLICOLOR_FORCE", "1")]), "error: no\n");
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let rows: Vec<Value> = (0..20_000)
        .map(|n| {
            json!({"prefix": format!(
                    "10.0.{}.{}", n / 200, n % 200,
                ), "since": null, "reason": null, "by": null, "origin": "config"})
        })
        .collect();
    let daemon = ScriptedDaemon::start(answers(&rows));
    let mut child = Command::new(env!("CARGO_BIN_EXE_rlctl"))
        .args(["list", "allows"])
        .env("RATELIMIT_SOCKET", daemon.socket())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(&first, b"PREFIX");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn usage_does_not_require_what_the_environment_sets() {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    let output = run(&daemon, &["ban"], "", &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("Usage: rlctl ban <PREFIX>...\n"),
        "{stderr}"
    );
}

#[test]
fn help_and_version_are_results() {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    let help = run(&daemon, &["--help"], "", &[]);
    assert_eq!(help.status.code(), Some(0));
    let stdout = String::from_utf8(help.stdout).unwrap();
    assert!(stdout.contains("Exit codes:\n  0  done\n"), "{stdout}");
    let version = run(&daemon, &["--version"], "", &[]);
    let stdout = String::from_utf8(version.stdout).unwrap();
    assert_eq!(stdout, format!("rlctl {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn config_check_tells_programs_where_each_problem_is() {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    let file = daemon.directory().join("wrong.toml");
    fs::write(&file, "[policy.default]\nlimit = 1\n\n[rule.x]\n").unwrap();
    let file = file.display().to_string();
    let output = run(&daemon, &["--json", "config", "check", &file], "", &[]);
    assert_eq!(output.status.code(), Some(1));
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reported["valid"], json!(false));
    let problems = reported["problems"].as_array().unwrap();
    let places: Vec<_> = problems
        .iter()
        .map(|problem| (&problem["file"], &problem["line"], &problem["column"]))
        .collect();
    for (line, column) in [(2, 1), (4, 2)] {
        let place = (&json!(file), &json!(line), &json!(column));
        assert!(places.contains(&place), "{reported}");
    }
    for problem in problems {
        assert!(
            problem["message"].is_string() && problem["hint"].is_string(),
            "{problem}"
        );
    }
}

fn check_usage(arguments: &[&str], stderr: &str) {
    let (request, stdout, code) = ("", "", 2);
    let daemon = answers(&json!({}));
    check(
        arguments,
        daemon,
        &Expected {
            request,
            stdout,
            stderr,
            code,
        },
    );
}

fn check_json_error(daemon: &ScriptedDaemon, arguments: &[&str], code: i32, error: &Value) {
    let output = run(daemon, arguments, "", &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
    let stderr: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(stderr, *error, "{arguments:?}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
}
