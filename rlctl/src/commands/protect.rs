//! `rlctl protect`: from an installed package to a protected interface.

mod configuration;
mod service;

use std::path::{Path, PathBuf};

use clap::Args;
use ratelimit_core::{
    api::{InterfaceStatus, Reloaded, Status},
    config::Config,
};
use serde_json::json;

use self::configuration::Plan;
use super::doctor::{self, Finding, State};
use crate::{
    arguments::CONFIG,
    client::{Answer, Client},
    completions,
    exit_code::ExitCode,
    failure::Failure,
    output::printable,
    report::Report,
};

/// `protect IFACE [--observe] [--replace] [--config FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl protect eth0 --observe
  rlctl protect eth0

It runs the checks of `rlctl doctor` and stops at an error. A missing configuration is written, \
with a limit of 1000 packets per second for each source. An existing one is not changed: the \
interface gets a file in conf.d beside it, unless the configuration names it already. Then the \
service is enabled and started, or the running daemon reloads. Where systemd does not run, the \
output names the command that starts the daemon.

With --observe nothing is dropped; `protect` without it ends the dry run. The exit code is 6 if \
the program could not be attached, and 4 if the daemon has to be started by hand.")]
pub struct ProtectArguments {
    /// The interface
    #[arg(value_name = "IFACE", add = completions::interfaces())]
    pub interface: String,
    /// Dry run: count what would be dropped, and let it pass
    #[arg(long)]
    pub observe: bool,
    /// Replace the configuration file; the previous one is kept as `config.toml.before`
    #[arg(long)]
    pub replace: bool,
    /// The configuration file to use without a daemon
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// Checks the host, configures the interface, starts or reloads the daemon, and reports what is
/// enforced.
pub fn run(arguments: &ProtectArguments, client: &Client) -> Result<Report, Failure> {
    let name = &arguments.interface;
    let findings = doctor::examine(Some(name), &arguments.config, client);
    let (errors, warnings) = problems(&findings);
    if let Some(error) = errors.first() {
        return Err(refusal(name, error));
    }
    let running = match client.get::<Status>("/v1/status") {
        Ok(answer) => Some(answer.value),
        Err(failure) if failure.code == ExitCode::NoDaemon => None,
        Err(failure) => return Err(failure),
    };
    let file = match &running {
        Some(status) => status.config_files.first().map(Path::new).ok_or_else(|| {
            Failure::refused("ratelimitd was started without a configuration file")
                .hint(format!("stop it, then run `rlctl protect {name}` again"))
        })?,
        None => &arguments.config,
    };
    let plan = Plan::of(arguments, file)?;
    let before = plan.write()?;
    if running.is_some() {
        let _: Answer<Reloaded> = client.call("/v1/reload")?;
        service::enable(file)?;
    } else {
        service::start(file)?;
    }
    let status: Answer<Status> = client.get("/v1/status")?;
    let interface = status.value.interfaces.iter().find(|it| &it.name == name);
    let interface = attached(name, interface)?;
    let limits = limits(name, &plan.config);
    let json = json!({
        "interface": name,
        "mode": interface.mode,
        "observe": arguments.observe,
        "written": plan.new.as_ref().map(|new| &new.path),
        "before": before,
        "limits": limits,
    });
    let mut lines = vec![summary(interface, arguments.observe)];
    lines.extend(limits);
    lines.push(plan.sentence());
    lines.extend(before.map(|it| format!("previous file: {}", it.display())));
    lines.extend(next(name, arguments.observe, service::is_managed(file)));
    Ok(Report::from_json(json, lines.join("\n")).notes(warnings))
}

/// Errors, and warnings as text. Not having a daemon or a valid configuration yet is neither.
fn problems(findings: &[Finding]) -> (Vec<&Finding>, Vec<String>) {
    let of_host = |it: &&Finding| !matches!(it.check, "daemon" | "configuration");
    let with = |state| {
        let found = findings.iter().filter(of_host);
        found.filter(move |it| it.state == state)
    };
    let warning = |it: &Finding| format!("{}: {}; see `rlctl doctor`", it.check, it.found);
    let warnings = with(State::Warning).map(warning).collect();
    (with(State::Error).collect(), warnings)
}

fn refusal(name: &str, error: &Finding) -> Failure {
    let Finding { check, found, .. } = error;
    let cause = match error.why.as_deref() {
        Some(why) if *check != "interface" => format!("{check}: {found}: {why}"),
        _ => found.clone(),
    };
    let failure = Failure::refused(format!("cannot protect {name}: {cause}"));
    let doctor = format!("rlctl doctor {name}");
    failure.hint(error.fix.clone().unwrap_or(doctor))
}

fn attached<'s>(
    name: &str,
    interface: Option<&'s InterfaceStatus>,
) -> Result<&'s InterfaceStatus, Failure> {
    interface.filter(|it| it.attached).ok_or_else(|| {
        let why = interface.and_then(|it| it.why.as_deref());
        let why = why.unwrap_or("the daemon did not attach the program");
        let error = format!("{name} is not protected: {why}");
        Failure::new(ExitCode::NotEnforced, error).hint(format!("rlctl doctor {name}"))
    })
}

/// The limits of a source that no prefix of a policy selects.
fn limits(name: &str, config: &Config) -> Vec<String> {
    let policy = config.policies.get(config.policy_on(Some(name)));
    let policy = policy.unwrap_or(&config.default_policy);
    let limit = |it| format!("limit of each source: {it}");
    policy.limits.iter().map(limit).collect()
}

fn summary(interface: &InterfaceStatus, observe: bool) -> String {
    let name = printable(&interface.name);
    let mode = interface.mode.as_deref().unwrap_or("unknown");
    if observe {
        format!("{name}: dry run ({mode} mode): packets that would be dropped are counted and pass")
    } else {
        format!("{name}: protected ({mode} mode)")
    }
}

/// The commands that come next.
fn next(name: &str, observe: bool, is_managed: bool) -> Vec<String> {
    let mut lines = vec![String::new(), "watch:    rlctl top".to_owned()];
    if observe {
        lines.push(format!("enforce:  rlctl protect {name}"));
    }
    lines.push("suspend:  rlctl pass-all on --for 10m".to_owned());
    let disable = if is_managed {
        " && systemctl disable --now ratelimitd"
    } else {
        ""
    };
    lines.push(format!("stop:     rlctl detach{disable}"));
    lines
}
