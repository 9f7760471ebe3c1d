//! `cargo xtask floods`: sends floods of forged sources, and writes what became of them into the documentation.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{process, setup, workspace};

/// Where the measurements are shown.
const PAGE: &str = "docs/floods.md";

/// Sends floods of forged sources through each store, and writes `docs/floods.md`
///
/// A flood forges from a quarter to sixteen times as many sources as can have state, with 1 to 8 packets each. Meanwhile known
/// sources keep to their limit and one does not. The exit code is success only when every promise is kept; then the page is
/// written.
#[derive(Args)]
pub struct Arguments {
    /// Draw the random numbers from this, and write nothing
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Measures. The exit code is that of the program that does.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::build()?;
    let mut build = process::cargo();
    build
        .args(["build", "--release", "--package", "ratelimit-tests"])
        .args(["--bin", "floods"])
        .env("RATELIMIT_BPF_LOG", "off");
    process::run(&mut build)?;
    process::status(&mut measure(arguments)?).map(process::exit_code)
}

/// Loading BPF is for root; building was not.
fn measure(arguments: &Arguments) -> Result<Command> {
    let binary = workspace::target_dir().join("release/floods");
    let mut command = process::as_root(&binary.to_string_lossy())?;
    command.current_dir(workspace::root());
    match arguments.seed {
        Some(seed) => command.args(["--seed", &seed.to_string()]),
        None => command.args(["--page", PAGE]),
    };
    Ok(command)
}
