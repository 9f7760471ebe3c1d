//! The real `rlctl` against a daemon with scripted answers: requests, output and exit codes.

mod changes;
mod config_show;
mod daemon;
mod failures;
mod fetch;
mod json;
mod lockout;
mod simulate;
mod snapshots;
mod views;

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::daemon::{Daemon, ScriptedDaemon};

/// The expected result of a command.
#[derive(Debug, PartialEq)]
struct Expected<'a> {
    /// Method, path and body; empty when nothing may be sent.
    request: &'a str,
    stdout: &'a str,
    stderr: &'a str,
    code: i32,
}

/// Runs `rlctl` once and compares all that it did. `$DIR` in an argument is a directory with
/// `list.txt`.
fn check(arguments: &[&str], daemon: Daemon, expected: &Expected<'_>) {
    let daemon = ScriptedDaemon::start(daemon);
    let output = run(&daemon, arguments, "", &[]);
    let directory = daemon.directory().to_str().unwrap().to_owned();
    let text = |bytes| {
        String::from_utf8(bytes)
            .unwrap()
            .replace(&directory, "$DIR")
    };
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    let seen = Expected {
        request: &daemon.requests().join("\n"),
        stdout: stdout.trim_end(),
        stderr: stderr.trim_end(),
        code: output.status.code().unwrap(),
    };
    assert_eq!(seen, *expected, "{arguments:?}");
}

/// The same for a command that succeeds.
fn check_view(arguments: &[&str], daemon: Daemon, request: &str, stdout: &str) {
    let expected = Expected {
        request,
        stdout,
        stderr: "",
        code: 0,
    };
    check(arguments, daemon, &expected);
}

fn run(
    daemon: &ScriptedDaemon,
    arguments: &[&str],
    stdin: &str,
    environment: &[(&str, &str)],
) -> Output {
    let directory = daemon.directory().to_str().unwrap();
    let arguments = arguments.iter().map(|word| word.replace("$DIR", directory));
    let mut child = Command::new(env!("CARGO_BIN_EXE_rlctl"))
        .args(arguments)
        .env("RATELIMIT_SOCKET", daemon.socket())
        .env("TZ", "UTC")
        .env("SSH_CONNECTION", "")
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read stdin may end before all is written.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// A moment ten days, twelve hours and a half before or behind this one, and the way it is
/// reported.
#[expect(
    clippy::disallowed_methods,
    reason = "the module of the clocks is in the program"
)]
fn moment(sign: i32) -> (Timestamp, String) {
    let distance = SignedDuration::from_mins((10 * 24 + 12) * 60 + 30);
    let moment = Timestamp::now() + distance * sign;
    let local = moment.to_zoned(TimeZone::UTC);
    (moment, local.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
