//! `rlctl simulate`: captures that the test writes, and figures that were counted by hand.

mod capture;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use self::capture::{Frame, PACKETS, header, packet, pcap, pcapng};

const NEW: &str = "\
[[interface]]
name = \"eth0\"
[policy.default]
limits = [{ packets = 2, per = \"1s\" }]
[allow]
sources = [\"192.0.2.10\"]
";
const OLD: &str = "\
[[interface]]
name = \"eth0\"
[policy.default]
limits = [{ packets = 1, per = \"1s\" }]
";

#[test]
fn it_shows_what_is_dropped_by_reason_by_source_and_over_time() {
    let files = files(&pcap());
    let stdout = "\
capture: 11 packets with 1.0 KiB in 1.800s, from 4 sources, up to 6 per second

ACTION  REASON      PACKETS  BYTES  SHARE
pass    not-ip            1    100   9.1%
pass    allowed           1    100   9.1%
pass    conforming        7    700  63.6%
drop    limited           2    200  18.2%

2 sources lose packets:
SOURCE         PASSED  DROPPED  OBSERVED  FIRST REASON  POLICY   LIMIT
198.51.100.1        3        1         0  limited       default  2 packets per 1s
2001:db8::/64       2        1         0  limited       default  2 packets per 1s

Per 1s:
FROM  PACKETS  PASSED  DROPPED  OBSERVED  REFUSED
  0s        6       5        1         0  ####
  1s        5       4        1         0  ####
";
    let stderr = "note: 11 packets were truncated by the capture; they count with their length on \
                  the wire\n\
                  note: 1 packet is out of order and was judged by its own time\n";
    for format in [pcap(), pcapng()] {
        fs::write(files.path().join("capture"), format).unwrap();
        check(
            &files,
            &["capture", "--config", "new.toml", "--interval", "1s"],
            "",
            (stdout, stderr, 0),
        );
    }
}

#[test]
fn a_comparison_shows_what_changes_for_packets_and_sources() {
    let files = files(&pcap());
    let arguments = [
        "capture",
        "--config",
        "new.toml",
        "--compare",
        "old.toml",
        "--interval",
        "1s",
        "--rows",
        "1",
    ];
    let (stdout, _, code) = run(&files, &arguments, b"");
    assert_eq!(code, 0);
    let expected = "
Compared with old.toml:
BEFORE           AFTER            PACKETS  BYTES  SHARE
pass not-ip      pass not-ip            1    100   9.1%
pass conforming  pass allowed           1    100   9.1%
pass conforming  pass conforming        5    500  45.4%
drop limited     pass conforming        2    200  18.2%
drop limited     drop limited           2    200  18.2%

2 sources differ: 0 newly dropped, 0 no longer dropped. Largest changes:
SOURCE        DROPPED BEFORE  AFTER  OBSERVED BEFORE  AFTER  FIRST REASON  POLICY   LIMIT
198.51.100.1               2      1                0      0  limited       default  2 packets per 1s
";
    let (_, end) = stdout
        .split_once("####\n  1s        5       4        1         0  ####\n")
        .unwrap();
    assert_eq!(end, expected);
}

#[test]
fn json_has_the_same_figures_under_names_that_stay() {
    let files = files(&pcap());
    let arguments = [
        "capture",
        "--config",
        "new.toml",
        "--compare",
        "old.toml",
        "--interval",
        "1s",
        "--json",
    ];
    let (stdout, stderr, code) = run(&files, &arguments, b"");
    assert_eq!((stderr.as_str(), code), ("", 0));
    let tally =
        |passed: u64, dropped: u64| json!({"passed": passed, "dropped": dropped, "observed": 0});
    let first = json!({"reason": "limited", "policy": "default", "limit": "2 packets per 1s"});
    let source = |source: &str, passed: u64| {
        json!({
            "source": source, "passed": passed, "dropped": 1, "observed": 0, "first": first
        })
    };
    let changed = |source: &str, old: Value, new: Value| {
        json!({
            "source": source, "old": old, "new": new, "first": first
        })
    };
    let interval = |start: f64, passed: u64, dropped: u64| {
        json!({
            "start_seconds": start, "passed": passed, "dropped": dropped, "observed": 0
        })
    };
    let row = |action: &str, reason: &str, packets: u64| {
        json!({
            "action": action, "reason": reason, "packets": packets, "bytes": packets * 100
        })
    };
    let name = |action: &str, reason: &str| json!({"action": action, "reason": reason});
    let pair = |old: Value, new: Value, packets: u64| {
        json!({
            "old": old, "new": new, "packets": packets, "bytes": packets * 100
        })
    };
    let (conforming, limited) = (name("pass", "conforming"), name("drop", "limited"));
    let expected = json!({
        "capture": {
            "file": "capture", "format": "pcap", "complete": true, "error": null, "packets": 11,
            "bytes": 1100, "cut": 11, "cut_headers": 0,
            "cut": 11,
            "cut_headers": 0,
            "sources": 4, "first": "2021-04-28T10:30:21Z", "duration_seconds": 1.8,
            "packets_per_second_max": 6,
            "backwards": 1, "untimed": 0,
        },
        "config": {"file": "new.toml", "observe": false},
        "verdicts": [
            row("pass", "not-ip", 1), row("pass", "allowed", 1), row("pass", "conforming", 7),
            row("drop", "limited", 2),
        ],
        "sources_dropped": 2,
        "sources_capacity": 262_144,
        "sources_evicted": 0,
        "sources": [source("198.51.100.1", 3), source("2001:db8::/64", 2)],
        "timeline": {"interval_seconds": 1.0, "intervals": [
            interval(0.0, 5, 1), interval(1.0, 4, 1),
        ]},
        "attacks": null,
        "challenged": null,
        "compare": {
            "file": "old.toml",
            "verdicts_old": [
                row("pass", "not-ip", 1), row("pass", "conforming", 6), row("drop", "limited", 4),
            ],
            "timeline_old": {"interval_seconds": 1.0, "intervals": [
                interval(0.0, 4, 2), interval(1.0, 3, 2),
            ]},
            "verdicts": [
                pair(name("pass", "not-ip"), name("pass", "not-ip"), 1),
                pair(conforming.clone(), name("pass", "allowed"), 1),
                pair(conforming.clone(), conforming.clone(), 5),
                pair(limited.clone(), conforming, 2),
                pair(limited.clone(), limited, 2),
            ],
            "sources_changed": 2,
            "sources_newly_dropped": 0,
            "sources_no_longer_dropped": 0,
            "sources": [
                changed("198.51.100.1", tally(2, 2), tally(3, 1)),
                changed("2001:db8::/64", tally(1, 2), tally(2, 1)),
            ],
        },
    });
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), expected);
}

#[test]
fn a_capture_that_is_cut_is_simulated_up_to_there_and_ends_with_1() {
    let whole = pcap();
    let packet = (whole.len() - 24) / PACKETS.len();
    // Within the head of the third, in its first and last byte, and within the last.
    for end in [
        24 + 2 * packet + 7,
        24 + 2 * packet + 1,
        24 + 3 * packet - 1,
        whole.len() - 1,
    ] {
        let packets = (end - 24) / packet;
        let files = files(&whole[..end]);
        let (stdout, stderr, code) = run(&files, &["capture", "--config", "new.toml"], b"");
        assert!(
            stdout.starts_with(&format!("capture: {packets} packets with ")),
            "{stdout}"
        );
        let error = format!(
            "it is cut at byte {end}, in the middle of packet {}",
            packets + 1
        );
        assert!(
            stderr.ends_with(&format!(
                "error: capture ends early: {error}\n\
                 hint: the result covers the {packets} packets before that\n"
            )),
            "{stderr}"
        );
        assert_eq!(code, 1);
        let (stdout, stderr, code) =
            run(&files, &["capture", "--config", "new.toml", "--json"], b"");
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer["capture"]["packets"], packets);
        assert_eq!(
            (&answer["capture"]["complete"], &answer["capture"]["error"]),
            (&json!(false), &json!(error))
        );
        let reported: Value = serde_json::from_str(&stderr).unwrap();
        assert_eq!(reported["error"], format!("capture ends early: {error}"));
        assert_eq!(code, 1);
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_with_nothing_on_stdout() {
    let files = files(&pcap()[..20]);
    let path = files.path();
    fs::write(path.join("wrong.toml"), "[[interface]]\nname = 5\n").unwrap();
    fs::write(path.join("empty"), "").unwrap();
    fs::write(path.join("compressed"), b"\x1f\x8b\x08\x00\x00").unwrap();
    for (arguments, error, code) in [
        (
            &["capture", "--config", "new.toml"][..],
            "error: cannot read any packet of capture: it is cut in the middle of its header\n",
            1,
        ),
        (
            &["empty", "--config", "new.toml"],
            "error: cannot read any packet of empty: it is empty\n",
            1,
        ),
        (
            &["compressed", "--config", "new.toml"],
            "error: cannot read any packet of compressed: it is compressed with gzip: write `gzip \
             -dc CAPTURE | rlctl simulate - ...`\n",
            1,
        ),
        (
            &["new.toml", "--config", "new.toml"],
            "error: cannot read any packet of new.toml: it is neither pcap nor pcapng (first bytes \
             5b 5b 69 6e); convert it with `editcap -F pcap CAPTURE NEW`\n",
            1,
        ),
        (
            &["none", "--config", "new.toml"],
            "error: cannot read none: No such file or directory (os error 2)\n",
            2,
        ),
    ] {
        check(&files, arguments, "", ("", error, code));
    }
    for (arguments, part, code) in [
        (
            &["capture", "--config", "wrong.toml"][..],
            "wrong.toml:2:",
            1,
        ),
        (
            &["capture", "--config", "new.toml", "--compare", "wrong.toml"],
            "wrong.toml:2:",
            1,
        ),
        (&["capture"], "--config <FILE>", 2),
        (
            &["capture", "--config", "new.toml", "--interval", "0s"],
            "write for example 1s",
            2,
        ),
    ] {
        let (stdout, stderr, ended) = run(&files, arguments, b"");
        assert!(stderr.contains(part), "{stderr}");
        assert_eq!((stdout.as_str(), ended), ("", code), "{arguments:?}");
    }
}

#[test]
fn intervals_that_are_too_short_are_a_usage_error() {
    let files = files(&pcap());
    let error =
        "error: the capture has more than 10000 intervals: use a longer interval, or omit it\n";
    check(
        &files,
        &["capture", "--config", "new.toml", "--interval", "10us"],
        "",
        ("", error, 2),
    );
}

#[test]
fn stdin_is_read_and_a_capture_may_be_empty() {
    let files = files(b"");
    let (stdout, _, code) = run(&files, &["-", "--config", "new.toml"], &pcap());
    assert!(stdout.starts_with("stdin: 11 packets with "), "{stdout}");
    assert_eq!(code, 0);
    let (stdout, stderr, code) = run(&files, &["-", "--config", "new.toml"], &pcap()[..24]);
    assert_eq!(
        stdout,
        "stdin: 0 packets with 0 B in 0.000s, from 0 sources, up to 0 per second\n"
    );
    assert_eq!(
        (stderr.as_str(), code),
        ("note: the capture has no packets\n", 0)
    );
}

#[test]
fn a_dry_run_says_that_everything_would_pass() {
    let files = files(&pcap());
    fs::write(
        files.path().join("dry.toml"),
        format!("observe = true\n{NEW}"),
    )
    .unwrap();
    let (stdout, stderr, code) = run(&files, &["capture", "--config", "dry.toml"], b"");
    assert!(
        stdout.contains("\nobserve  limited           2    200  18.2%\n"),
        "{stdout}"
    );
    assert!(
        stdout.contains("\n198.51.100.1        3        0         1  limited "),
        "{stdout}"
    );
    assert!(
        stderr.starts_with("note: the configuration is a dry run: observed packets would pass\n"),
        "{stderr}"
    );
    assert_eq!(code, 0);
}

#[test]
fn more_sources_than_the_kernel_would_remember_are_reported() {
    let files = files(&pcap());
    fs::write(
        files.path().join("small.toml"),
        format!(
            "{NEW}[source]\n\
             capacity = 1024\n\
             new_sources = {{ count = 100_000, per = \"1s\", over_budget = \"drop\" }}\n"
        ),
    )
    .unwrap();
    let frames = (0..1025_u16).map(|number| {
        let [high, low] = number.to_be_bytes();
        packet(0, Frame::V4([10, 0, high, low]))
    });
    let capture = [header(), frames.collect::<Vec<_>>().concat()].concat();
    let (_, stderr, _) = run(&files, &["-", "--config", "small.toml"], &capture);
    let note = "note: the capture has 1025 sources, and there is room for 1024 of a family \
                (`[source] capacity`): 1 time";
    assert!(stderr.contains(note), "{stderr}");
}

/// The output and the exit code.
fn check(
    files: &TempDir,
    arguments: &[&str],
    stdin: &str,
    (stdout, stderr, code): (&str, &str, i32),
) {
    let seen = run(files, arguments, stdin.as_bytes());
    assert_eq!(
        seen,
        (stdout.to_owned(), stderr.to_owned(), code),
        "{arguments:?}"
    );
}

fn run(files: &TempDir, arguments: &[&str], stdin: &[u8]) -> (String, String, i32) {
    let Output {
        status,
        stdout,
        stderr,
    } = output(files.path(), arguments, stdin);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr), status.code().unwrap())
}

fn output(directory: &Path, arguments: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rlctl"))
        .arg("simulate")
        .args(arguments)
        .current_dir(directory)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A capture that is refused at once is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

/// A directory with a capture and two configurations.
fn files(capture: &[u8]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("capture", capture),
        ("new.toml", NEW.as_bytes()),
        ("old.toml", OLD.as_bytes()),
    ] {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

#[test]
fn attacks_are_named_with_their_times_and_with_whom_the_answer_would_meet() {
    // A second of peace, and one with a source that sends a hundred times what others do.
    let mut packets = vec![header()];
    for millis in (0..3000).step_by(10) {
        let other = u8::try_from(millis / 10 % 20).unwrap();
        packets.push(packet(millis, Frame::V4([198, 51, 100, other])));
        if (1000..2000).contains(&millis) {
            packets.push(packet(millis, Frame::V4([203, 0, 113, 7])));
        }
    }
    let files = files(&packets.concat());
    let rule = "[detection.heavy_hitter]\nthreshold = 50\nanswer = \"ban\"\n";
    let path = files.path().join("attack.toml");
    fs::write(&path, format!("{OLD}{rule}")).unwrap();
    let arguments = ["capture", "--config", "attack.toml"];
    let (stdout, ..) = run(&files, &arguments, b"");
    let expected = "\
1 attack would have been detected:
ATTACK        SUBJECT           FROM    TO  PACKETS/S  SOURCES  ANSWER
heavy-hitter  from 203.0.113.7  2.0s  2.0s        100        1  ban 203.0.113.7
";
    assert!(stdout.ends_with(expected), "{stdout}");
    let protected = "[protected]\nsources = [\"203.0.113.0/24\"]\n";
    fs::write(&path, format!("{OLD}{rule}{protected}")).unwrap();
    let (stdout, ..) = run(
        &files,
        &["capture", "--config", "attack.toml", "--json"],
        b"",
    );
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        answer["attacks"],
        json!([{ "kind": "heavy-hitter", "subject": "from 203.0.113.7", "start_seconds": 2.0,
            "end_seconds": 2.0,
            "packets_per_second": 100, "sources_seen": 1, "answer": "ban", "sources": [] }])
    );
    let (stdout, ..) = run(&files, &["capture", "--config", "old.toml", "--json"], b"");
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(answer["attacks"], Value::Null);
}
