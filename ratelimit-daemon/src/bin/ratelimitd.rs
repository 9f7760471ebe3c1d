//! The daemon.

use std::{fs, io::IsTerminal, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use ratelimit_core::config::{self, ConfigError};
use ratelimit_daemon::{control::Start, daemon::Daemon, loader, user::User};
use tracing::warn;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Limits packets by source address in the kernel, before the network stack sees them.
///
/// It reads /etc/ratelimit/config.toml and conf.d/*.toml next to it, loads the XDP program, and
/// serves rlctl and metrics. When it stops, the kernel continues to enforce, unless the
/// configuration says otherwise.
#[derive(Parser)]
#[command(name = "ratelimitd", version, after_help = AFTER_HELP)]
struct Command {
    /// The configuration file.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/ratelimit/config.toml"
    )]
    #[arg(conflicts_with = "interfaces")]
    config: PathBuf,

    /// The user to run as when started as root; files are read with its permissions. The default is
    /// `ratelimit`, or `nobody` if that user does not exist.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Writes the program that libxdp's dispatcher loads for an interface with `mode = "pinned"`,
    /// for `xdp-loader load`, and exits.
    #[arg(long, value_name = "FILE")]
    entry: Option<PathBuf>,

    #[command(flatten)]
    without_file: config::Arguments,
}

const AFTER_HELP: &str = "\
Examples:
  ratelimitd --interface eth0 --packets 1000 --per 1s
  ratelimitd --config /etc/ratelimit/config.toml

Signals: SIGHUP reads the configuration again, SIGTERM and SIGINT stop.
The log goes to stderr. RUST_LOG=ratelimit_daemon=debug shows sampled drops, as `rlctl events` \
    does.";

fn main() -> ExitCode {
    let arguments = Command::parse();
    start_log();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An error of the configuration says itself that it is one, for each place.
            if error.is::<ConfigError>() {
                if arguments.without_file != config::Arguments::default() {
                    // In the format of clap.
                    let error = error.to_string();
                    eprintln!("error: {}", error.strip_prefix("error: ").unwrap_or(&error));
                    return ExitCode::from(2);
                }
                eprintln!("{error}");
                if !arguments.config.exists() {
                    eprintln!(
                        "hint: without a file: `ratelimitd --interface eth0 --packets 1000 --per \
                         1s`"
                    );
                }
            } else {
                eprintln!("error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Command) -> anyhow::Result<()> {
    if let Some(file) = &arguments.entry {
        return fs::write(file, &*loader::ENTRY)
            .with_context(|| format!("writing {}", file.display()));
    }
    // First of all, while no untrusted data has been read: the loader has privileges that no other
    // process has.
    let loader = loader::start()?;
    let user = User::find(arguments.user.as_deref())?;
    let config = user.act(|| config(arguments))??;
    Daemon::build(config, &user, loader)?.run()
}

/// The configuration of the command line where that names an interface, else that of the files, or
/// where they are wrong the one that was in force last.
fn config(arguments: &Command) -> anyhow::Result<Start> {
    if arguments.without_file != config::Arguments::default() {
        return Ok(config::from_command_line(&arguments.without_file)?.into());
    }
    let (start, warnings) = Start::read(&arguments.config)?;
    for warning in warnings {
        warn!("{warning}");
    }
    Ok(start)
}

fn start_log() {
    let levels = std::env::var("RUST_LOG").ok();
    let levels = levels.filter(|levels| !levels.is_empty());
    let levels = levels.and_then(|levels| levels.parse::<Targets>().ok());
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false);
    tracing_subscriber::registry()
        .with(levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO)))
        .with(lines)
        .init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_manual_says_what_the_help_says() {
        let related = ["rlctl(1)", "ratelimit.toml(5)"];
        manual::committed(&manual::pages(Command::command(), "8", &related));
    }
}
