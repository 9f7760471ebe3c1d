//! `--json`: each verb prints only JSON, on success and on failure.

use std::{fs, process::Output};

use serde_json::{Deserializer, Value, json};

use crate::{
    daemon::{Daemon, ScriptedDaemon, refuses},
    run, snapshots,
};

const SINCE: &str = "2026-03-02T14:32:07Z";
const MINIMAL: &str = "[[interface]]\nname = \"lo\"\n[policy.default]\nlimits = []\n";

#[test]
fn each_verb_prints_json_and_nothing_else() {
    let rows = rows();
    for verb in verbs("") {
        // They need a kernel: tests/tests/json.rs.
        if ["demo", "protect"].contains(&verb.as_str()) {
            continue;
        }
        let mut of_verb = rows
            .iter()
            .filter(|(words, _)| is_of(words, &verb))
            .peekable();
        assert!(of_verb.peek().is_some(), "{verb}: no row");
        for (words, answer) in of_verb {
            let daemon = match answer {
                Value::String(text) => Daemon::Answers(200, text.clone()),
                answer => snapshots::daemon_of(words, answer),
            };
            let output = with_json(daemon, words);
            let (stdout, stderr) = (documents(&output.stdout), documents(&output.stderr));
            assert!(!stdout.is_empty(), "{words}: {output:?}");
            assert!(stderr.iter().all(Value::is_object), "{words}: {output:?}");
        }
    }
}

#[test]
fn each_verb_that_fails_says_so_in_an_object_with_an_error() {
    for (words, _) in rows() {
        for daemon in [refuses(409, "no", Some("why")), Daemon::Absent] {
            // These need no daemon, or report their findings without one.
            let alone = ["config check", "doctor", "fetch", "simulate"];
            if alone.iter().any(|verb| words.starts_with(verb)) {
                continue;
            }
            let words = words.replace("list.txt", "none.txt");
            check_failure(&with_json(daemon, &words), &words);
        }
    }
    for words in [
        "config check $DIR/none.toml",
        "simulate $DIR/none.pcap --config $DIR/config.toml",
        "export --format plain",
        "export --format plain --bans",
        "ban 1.2.3.400",
        "ban",
        "limit set --packets 5",
        "keys",
        "protect nosuch0",
        "nothing",
    ] {
        check_failure(&with_json(Daemon::Absent, words), words);
    }
}

#[test]
fn what_there_was_nothing_to_do_about_is_json_too() {
    let nothing = json!({"added": 0, "updated": 0, "removed": 0, "absent": ["192.0.2.1"]});
    for words in [
        "unban 192.0.2.1",
        "allow rm 192.0.2.1",
        "limit rm --prefix 192.0.2.1",
    ] {
        let output = with_json(Daemon::Answers(200, nothing.to_string()), words);
        assert_eq!(
            documents(&output.stdout),
            std::slice::from_ref(&nothing),
            "{words}"
        );
    }
    for words in [
        "list lists",
        "list bans",
        "list allows",
        "list limits",
        "list protected",
        "top",
        "stats",
    ] {
        let output = with_json(Daemon::Answers(200, "[]".to_owned()), words);
        assert_eq!(documents(&output.stdout), [json!([])], "{words}");
    }
}

fn check_failure(output: &Output, words: &str) {
    assert_ne!(output.status.code(), Some(0), "{words}: {output:?}");
    assert!(
        documents(&output.stderr)
            .iter()
            .any(|it| it["error"].is_string()),
        "{words}: {output:?}"
    );
    documents(&output.stdout);
}

/// The JSON documents that a text consists of.
fn documents(text: &[u8]) -> Vec<Value> {
    let documents = Deserializer::from_slice(text).into_iter::<Value>();
    documents
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

fn with_json(daemon: Daemon, words: &str) -> Output {
    let daemon = ScriptedDaemon::start(daemon);
    let write = |name, text| fs::write(daemon.directory().join(name), text).unwrap();
    write("config.toml", MINIMAL.as_bytes());
    // The head of a capture of Ethernet frames, and a frame of 14 zeroes.
    let mut capture = b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00".to_vec();
    capture.extend([0; 8]);
    capture.extend([0, 0, 1, 0, 1, 0, 0, 0]);
    capture.extend([0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0]);
    capture.extend([0; 14]);
    write("some.pcap", &capture);
    let words: Vec<&str> = words.split(' ').chain(["--json"]).collect();
    run(&daemon, &words, "", &[])
}

fn is_of(words: &str, verb: &str) -> bool {
    words == verb
        || words
            .strip_prefix(verb)
            .is_some_and(|rest| rest.starts_with(' '))
}

/// The verbs below `verb` that have none below them, as the help of each names them.
fn verbs(verb: &str) -> Vec<String> {
    let daemon = ScriptedDaemon::start(Daemon::Absent);
    let words: Vec<&str> = verb
        .split(' ')
        .chain(["-h"])
        .filter(|it| !it.is_empty())
        .collect();
    let help = String::from_utf8(run(&daemon, &words, "", &[]).stdout).unwrap();
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let below = below.take_while(|line| !line.is_empty());
    let names = below.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    let below: Vec<String> = names
        .flat_map(|name| verbs(format!("{verb} {name}").trim()))
        .collect();
    if below.is_empty() {
        return vec![verb.to_owned()];
    }
    below
}

/// A command line of each verb, and the daemon's answer: JSON, or text.
fn rows() -> Vec<(&'static str, Value)> {
    let reloaded = json!({"files": ["/etc/ratelimit/config.toml"], "changes": []});
    let cluster = json!({"url": "redis://store", "node": "a", "connected": true, "since": SINCE,
        "error": null, "bans": 0,
        "failures": 0, "nodes": [], "refused": {}, "refusal": null, "refused_at": null,
        "denied": 0});
    let imported = json!({"dry_run": false, "format": "plain", "targets": [], "duplicates": 0,
        "covered": 0, "skipped": {}, "bad": 0});
    let event =
        r#"{"time": "2026-03-02T14:32:07Z", "kind": "of a newer daemon"}"#.to_owned() + "\n";
    let applied = json!({"changes": [], "attempt": {"file": "new.toml", "main": "config.toml",
        "installed": false,
        "outcome": "pending", "until": SINCE}});
    let settings = json!([{"key": "clock", "value": "\"auto\"", "origin": "default"}]);
    let revoked = json!({"node": "b", "revoked": true, "changed": true, "until": null});
    let others = [
        ("import $DIR/list.txt --ban", imported),
        ("export", json!("{\"prefix\": \"192.0.2.1\"}\n")),
        ("events", json!(event)),
        ("capture -w $DIR/new.pcapng", json!("")),
        ("reload --dry-run", reloaded),
        ("apply $DIR/config.toml", applied),
        ("cluster status", cluster),
        ("cluster revoke b", revoked),
        ("config show --with-origin", settings),
        ("doctor lo", Value::Null),
        (
            "doctor --archive $DIR/support.tar.gz --config $DIR/config.toml --log $DIR/list.txt",
            Value::Null,
        ),
        ("config check $DIR/config.toml", Value::Null),
        ("fetch --config $DIR/config.toml", Value::Null),
        (
            "simulate $DIR/some.pcap --config $DIR/config.toml",
            Value::Null,
        ),
    ];
    snapshots::verbs().into_iter().chain(others).collect()
}
