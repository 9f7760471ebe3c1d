//! The daemon.

use std::{io::IsTerminal, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use ratelimit_daemon::{
    config::{self, Config},
    daemon::Daemon,
};
use tracing_subscriber::EnvFilter;

/// Limits packets by source address in the kernel, before the network stack sees them.
///
/// Reads /etc/ratelimit/config.toml and conf.d/*.toml beside it, loads the XDP program, and stays to take commands from
/// rlctl and to serve metrics. When it stops, the kernel goes on enforcing unless the configuration says otherwise.
#[derive(Parser)]
#[command(version, after_help = AFTER_HELP)]
struct Arguments {
    /// The configuration file.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/ratelimit/config.toml"
    )]
    config: PathBuf,
}

const AFTER_HELP: &str = "\
Examples:
  ratelimitd --interface eth0 --packets 1000 --per 1s
  ratelimitd --config /etc/ratelimit/config.toml

Signals: SIGHUP reads the configuration again, SIGTERM and SIGINT stop.
The log goes to stderr; RUST_LOG=ratelimit_daemon=debug shows sampled drops.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    start_log();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    Daemon::build(config(arguments)?)?.run()
}

fn config(arguments: &Arguments) -> anyhow::Result<Config> {
    config::load(&arguments.config).context("reading the configuration")
}

fn start_log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false)
        .init();
}
