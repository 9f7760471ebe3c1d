//! Checks that keep people from locking themselves out.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use ratelimit_core::api::{
    Applied, Attempt, Changed, PassAllStatus, ProtectedView, Status, TrialOutcome,
};

use serde_json::json;

use crate::{
    Expected, check, check_view,
    daemon::{Daemon, ScriptedDaemon, answers, refuses},
    moment, run,
};

#[test]
fn a_ban_that_is_refused_names_force_and_force_is_sent() {
    let error = "198.51.100.0/24 covers 198.51.100.1, the default gateway of eth0";
    let hint = "ban prefixes without it, or use --force to ban it anyway (may cut this host off)";
    check(
        &["ban", "198.51.100.0/24"],
        refuses(409, error, Some(hint)),
        &Expected {
            request: r#"POST /v1/bans {"prefixes":["198.51.100.0/24"],"seconds":null,"reason":null}"#,
            stdout: "",
            stderr: &format!("error: {error}\nhint: {hint}"),
            code: 1,
        },
    );
    check_view(
        &["ban", "198.51.100.0/24", "--force", "--forever"],
        answers(&Changed {
            added: 1,
            ..Changed::default()
        }),
        r#"POST /v1/bans {"prefixes":["198.51.100.0/24"],"seconds":null,"forever":true,"reason":null,"force":true}"#,
        "banned 198.51.100.0/24 forever",
    );
}

#[test]
fn protected_addresses_stand_with_their_reasons() {
    let view = |prefix: &str, reasons: &[&str], exempt| ProtectedView {
        prefix: prefix.parse().unwrap(),
        reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
        exempt,
    };
    let gateway = [
        "the default gateway of eth0",
        "a resolver in /etc/resolv.conf",
    ];
    check_view(
        &["list", "protected"],
        answers(&[
            view("127.0.0.0/8", &["the loopback of this host"], false),
            view("198.51.100.1", &gateway, true),
        ]),
        "GET /v1/protected",
        "\
PREFIX        REASON                                                          EXEMPT FROM A WIDER \
    BAN
127.0.0.0/8   the loopback of this host                                       no
198.51.100.1  the default gateway of eth0 and a resolver in /etc/resolv.conf  yes",
    );
}

#[test]
fn pass_all_says_until_when() {
    let (until, reported) = moment(1);
    let status = |until| PassAllStatus {
        since: moment(-1).0,
        until,
        author: "root".to_owned(),
    };
    check_view(
        &["pass-all", "on", "--for", "10m"],
        answers(&status(Some(until))),
        r#"POST /v1/pass-all {"on":true,"seconds":600.0}"#,
        &format!("pass-all is on until {reported}: limits and bans are not enforced"),
    );
    check_view(
        &["pass-all", "on"],
        answers(&status(None)),
        r#"POST /v1/pass-all {"on":true,"seconds":null}"#,
        "pass-all is on until turned off: limits and bans are not enforced",
    );
    check_view(
        &["pass-all", "off"],
        answers(&status(None)),
        r#"POST /v1/pass-all {"on":false,"seconds":null}"#,
        "pass-all is off: limits and bans are enforced",
    );
    check_view(
        &["pass-all", "off"],
        answers(&None::<PassAllStatus>),
        r#"POST /v1/pass-all {"on":false,"seconds":null}"#,
        "pass-all was already off",
    );
}

#[test]
fn apply_sends_the_text_and_says_until_when_it_holds() {
    let (until, reported) = moment(1);
    let daemon = ScriptedDaemon::start(answers(&Applied {
        changes: vec!["policy default: 1 -> 2".to_owned()],
        attempt: attempt(TrialOutcome::Pending { until }, false),
    }));
    let output = run(
        &daemon,
        &["apply", "$DIR/list.txt", "--confirm", "90s"],
        "",
        &[],
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let expected =
        format!("applied /root/new.toml until {reported}: 1 change\n  policy default: 1 -> 2\n");
    assert_eq!(text, expected);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert_eq!(notes, "note: `rlctl confirm` keeps it\n");
    let request = daemon.requests().join("\n");
    assert!(
        request.starts_with(r#"POST /v1/apply {"file":"/"#),
        "{request}"
    );
    let text = r##""text":"# a list\n192.0.2.1\n"##;
    assert!(request.contains(text), "{request}");
    assert!(request.ends_with(r#""seconds":90.0}"#), "{request}");
}

#[test]
fn whoever_leaves_a_trial_takes_it_back_at_once() {
    // Ctrl-D and Ctrl-C.
    for key in [b"\x04", b"\x03"] {
        let daemon = trial();
        let mut terminal = Terminal::of_trial(&daemon);
        terminal.write(key);
        let said = terminal.rest();
        let expected = "was not confirmed: restored the previous configuration";
        assert!(said.contains(expected), "{said}");
        assert_eq!(daemon.requests().last().unwrap(), "POST /v1/rollback");
    }
    // A terminal that is closed.
    let daemon = trial();
    let mut terminal = Terminal::of_trial(&daemon);
    terminal.script.kill().unwrap();
    terminal.script.wait().unwrap();
    let is_taken_back = || daemon.requests().last().unwrap() == "POST /v1/rollback";
    let mut waited = 0..200;
    while !is_taken_back() {
        waited.next().expect("it is taken back within ten seconds");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn enter_keeps_a_trial() {
    let daemon = trial();
    let mut terminal = Terminal::of_trial(&daemon);
    terminal.write(b"\n");
    let said = terminal.rest();
    assert!(said.contains("confirmed /root/new.toml"), "{said}");
    assert_eq!(daemon.requests().last().unwrap(), "POST /v1/confirm");
}

/// A daemon with a trial that is pending.
fn trial() -> ScriptedDaemon {
    let ((past, _), (until, _)) = (moment(-1), moment(1));
    let pending = attempt(TrialOutcome::Pending { until }, true);
    let status = Status {
        attempt: Some(pending.clone()),
        ..crate::views::status(past)
    };
    let applied = Applied {
        changes: Vec::new(),
        attempt: pending,
    };
    let [confirmed, rolled_back] = [
        TrialOutcome::Confirmed { at: past },
        TrialOutcome::RolledBack { at: past },
    ]
    .map(|outcome| serde_json::to_string(&attempt(outcome, true)).unwrap());
    ScriptedDaemon::start(Daemon::ByPath(vec![
        ("/v1/apply", serde_json::to_string(&applied).unwrap()),
        ("/v1/status", serde_json::to_string(&status).unwrap()),
        ("/v1/confirm", confirmed),
        ("/v1/rollback", rolled_back),
    ]))
}

/// `rlctl apply` on a terminal of its own, which `script` makes.
struct Terminal {
    script: Child,
    said: String,
}

impl Terminal {
    /// Waits until the question is asked.
    fn of_trial(daemon: &ScriptedDaemon) -> Self {
        let command = format!(
            "{} apply {}/list.txt",
            env!("CARGO_BIN_EXE_rlctl"),
            daemon.directory().display()
        );
        let script = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("RATELIMIT_SOCKET", daemon.socket())
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = String::new();
        let mut terminal = Self { script, said };
        while !terminal.said.contains("press Enter to keep it") {
            let mut piece = [0; 1024];
            let stdout = terminal.script.stdout.as_mut().unwrap();
            let length = stdout.read(&mut piece).unwrap();
            assert!(length > 0, "{}", terminal.said);
            terminal.said += &String::from_utf8_lossy(&piece[..length]);
        }
        terminal
    }

    fn write(&mut self, keys: &[u8]) {
        let stdin = self.script.stdin.as_mut().unwrap();
        stdin.write_all(keys).unwrap();
        stdin.flush().unwrap();
    }

    /// All that it says until it ends.
    fn rest(&mut self) -> String {
        let stdout = self.script.stdout.as_mut().unwrap();
        stdout.read_to_string(&mut self.said).unwrap();
        self.script.wait().unwrap();
        self.said.clone()
    }
}

#[test]
fn a_file_that_is_not_there_is_not_sent() {
    check(
        &["apply", "/nowhere/new.toml"],
        answers(&()),
        &Expected {
            request: "",
            stdout: "",
            stderr: "error: cannot read /nowhere/new.toml: No such file or directory (os error 2)",
            code: 2,
        },
    );
}

#[test]
fn confirm_and_rollback_say_what_the_file_of_the_daemon_is_to_hold() {
    let at = moment(-1).0;
    check_view(
        &["confirm"],
        answers(&attempt(TrialOutcome::Confirmed { at }, true)),
        "POST /v1/confirm",
        "confirmed /root/new.toml",
    );
    check(
        &["confirm"],
        answers(&attempt(TrialOutcome::Confirmed { at }, false)),
        &Expected {
            request: "POST /v1/confirm",
            stdout: "confirmed /root/new.toml",
            stderr: "note: /etc/ratelimit/config.toml differs; `rlctl confirm --save` writes \
                     /root/new.toml there",
            code: 0,
        },
    );
    check_view(
        &["rollback"],
        answers(&attempt(TrialOutcome::RolledBack { at }, false)),
        "POST /v1/rollback",
        "rolled back /root/new.toml: restored the previous configuration",
    );
}

#[test]
fn confirm_saves_a_file_that_lies_beside_that_of_the_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let [main, tried] = ["config.toml", "new.toml"].map(|name| directory.path().join(name));
    fs::write(&main, "old").unwrap();
    fs::write(&tried, "new").unwrap();
    let at = moment(-1).0;
    let attempt = Attempt {
        file: tried.display().to_string(),
        main: main.display().to_string(),
        ..attempt(TrialOutcome::Confirmed { at }, false)
    };
    let answer = |changes: &[&str]| {
        let diff = json!({ "files": [], "changes": changes });
        let confirmed = serde_json::to_string(&attempt).unwrap();
        Daemon::ByPath(vec![
            ("/v1/confirm", confirmed),
            ("/v1/diff", diff.to_string()),
        ])
    };
    let confirm = |changes: &[&str]| {
        let daemon = ScriptedDaemon::start(answer(changes));
        run(&daemon, &["confirm"], "", &[])
    };
    let output = confirm(&["policy default: changed"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("new.toml changed since the trial began"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&main).unwrap(), "old");
    let output = confirm(&[]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("and saved it as"), "{said}");
    assert_eq!(fs::read_to_string(&main).unwrap(), "new");
    let before = directory.path().join("config.toml.before");
    assert_eq!(fs::read_to_string(before).unwrap(), "old");
}

#[test]
fn status_tells_of_all_three() {
    let (past, past_reported) = moment(-1);
    let (until, _) = moment(1);
    let reported = |status: &Status| {
        let daemon = ScriptedDaemon::start(answers(status));
        let output = run(&daemon, &["status"], "", &[]);
        String::from_utf8(output.stdout).unwrap()
    };
    let status = |outcome| Status {
        protected: 3,
        pass_all: Some(PassAllStatus {
            since: past,
            until: None,
            author: "root".to_owned(),
        }),
        attempt: Some(attempt(outcome, true)),
        ..crate::views::status(past)
    };
    let text = reported(&status(TrialOutcome::Pending { until }));
    for line in [
        &format!(
            "pass-all is on since {past_reported} (by root, until turned off): nothing is dropped"
        ),
        "not confirmed: /root/new.toml is active for 10d",
        "3 prefixes are protected from bans: `rlctl list protected`",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let text = reported(&status(TrialOutcome::RolledBack { at: past }));
    let line = format!(
        "rolled back at {past_reported}: running the previous configuration; edit \
         /etc/ratelimit/config.toml"
    );
    assert!(text.contains(&line), "{text}");
    let text = reported(&status(TrialOutcome::Confirmed { at: past }));
    assert!(
        text.contains("`rlctl confirm --save` writes it there"),
        "{text}"
    );
}

fn attempt(outcome: TrialOutcome, installed: bool) -> Attempt {
    Attempt {
        file: "/root/new.toml".to_owned(),
        main: "/etc/ratelimit/config.toml".to_owned(),
        installed,
        outcome,
    }
}
