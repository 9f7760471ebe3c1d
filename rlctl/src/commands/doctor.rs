//! `rlctl doctor`: finds problems of this host, and prints the commands that fix them.
//!
//! It changes nothing. It asks the daemon, or reads the configuration file if none runs.

mod answers;
mod destinations;
mod device;
mod finding;
mod frames;
mod host;
mod interface;
mod link;
mod memory;
mod program;
mod queues;

use std::path::{Path, PathBuf};

use clap::Args;
use ratelimit_core::{
    api::Status,
    config::{self, Config},
};
use serde_json::Value;

pub use self::finding::{Finding, State};
use crate::{
    arguments::CONFIG,
    client::{Answer, Client},
    completions,
    exit_code::ExitCode,
    failure::Failure,
    output::{BAD, GOOD, WARNING, printable, styled},
    report::Report,
};

/// `doctor [IFACE] [--config FILE]`, `doctor --archive [FILE] [--with-addresses] [--log FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl doctor
  rlctl doctor eth0
  rlctl doctor --json | jq '.[] | select(.state != \"ok\")'
  rlctl doctor --archive
  rlctl doctor --archive /tmp/ratelimit.tar.gz --with-addresses

It changes nothing and works without a daemon. Without root it reports what it could not check. A \
warning degrades the limiter, an error keeps it from working. The exit code is 1 if there is an \
error, otherwise 0.

The archive contains versions, the output of `rlctl doctor`, status, configuration, limits, lists, \
counters, recent events, metrics, and the log of the last hour. Only its owner can read it. \
Existing files are not overwritten.

Passwords, keys and secrets are removed from it. Addresses, and hosts in URLs, are replaced by \
documentation addresses, consistently in all files. Names of users, nodes, interfaces, policies \
and lists, and reasons, are kept: review them before you send the archive.")]
pub struct DoctorArguments {
    /// The interface [default: all configured ones]
    #[arg(value_name = "IFACE", add = completions::interfaces())]
    pub interface: Option<String>,
    /// The configuration file to use without a daemon
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
    /// Write an archive for a bug report, a .tar.gz [default: ratelimit-support-TIME.tar.gz]
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "interface")]
    #[expect(clippy::option_option, reason = "the option may have no value")]
    pub archive: Option<Option<PathBuf>>,
    /// Keep addresses and hosts in the archive
    #[arg(long, requires = "archive")]
    pub with_addresses: bool,
    /// The log file for the archive, if it is not in the systemd journal
    #[arg(long, value_name = "FILE", requires = "archive")]
    pub log: Option<PathBuf>,
}

/// The state of the daemon and the configuration, as far as they are known.
struct Circumstances {
    status: Option<Status>,
    /// The configuration, where it can be read.
    config: Option<Config>,
}

/// Examines this host, and the named or configured interfaces.
pub fn run(arguments: &DoctorArguments, client: &Client) -> Report {
    let findings = examine(arguments.interface.as_deref(), &arguments.config, client);
    let json = serde_json::to_value(&findings).unwrap_or(Value::Null);
    let text: Vec<String> = findings.iter().map(text).collect();
    let mut report = Report::from_json(json, text.join("\n"));
    if findings.iter().any(|it| it.state == State::Error) {
        report.code = ExitCode::Refused;
    }
    report
}

/// All findings: first those of the host, then those of each interface.
pub fn examine(named: Option<&str>, file: &Path, client: &Client) -> Vec<Finding> {
    let answer: Result<Answer<Status>, Failure> = client.get("/v1/status");
    let mut findings = vec![
        host::kernel(),
        host::jit(),
        host::btf(),
        host::daemon(&answer),
    ];
    let status = answer.ok().map(|answer| answer.value);
    let of_daemon = status.as_ref().and_then(|it| it.config_files.first());
    let file = of_daemon.map_or(file, Path::new);
    let config = match config::load(file) {
        Ok(config) => Some(config),
        Err(error) => {
            findings.push(host::unread_configuration(file, &error, status.is_some()));
            None
        }
    };
    let known = Circumstances { status, config };
    findings.push(host::bpffs(&known));
    findings.push(memory::examine(&known));
    findings.extend(known.config.iter().flat_map(host::secrets));
    findings.extend(known.config.as_ref().and_then(destinations::examine));
    for name in interfaces(named, &known) {
        findings.extend(interface::examine(&name, &known));
    }
    findings
}

/// The interface that is named, or those that are configured.
fn interfaces(named: Option<&str>, known: &Circumstances) -> Vec<String> {
    match (named, &known.status, &known.config) {
        (Some(name), ..) => vec![name.to_owned()],
        (None, Some(status), _) => status.interfaces.iter().map(|it| it.name.clone()).collect(),
        (None, None, Some(config)) => config.interfaces.iter().map(|it| it.name.clone()).collect(),
        (None, None, None) => Vec::new(),
    }
}

/// A line, and under it why and the command that fixes it.
fn text(finding: &Finding) -> String {
    let style = match finding.state {
        State::Ok => GOOD,
        State::Warning | State::Unknown => WARNING,
        State::Error => BAD,
    };
    let state = styled(style, &format!("{:<7}", finding.state.word()));
    let what = match &finding.interface {
        Some(interface) => format!("{interface} {}", finding.check),
        None => finding.check.to_owned(),
    };
    let line = format!(
        "{state}  {}: {}",
        printable(&what),
        printable(&finding.found)
    );
    let why = finding.why.iter().map(|why| ("why", why));
    let fix = finding.fix.iter().map(|fix| ("fix", fix));
    why.chain(fix).fold(line, |line, (word, said)| {
        format!("{line}\n         {word}: {}", printable(said))
    })
}
