//! `cargo xtask exactness`: measures how exact the limiter is, and writes what it measured into the documentation.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{process, setup, workspace};

/// Where the measurements are shown.
const PAGE: &str = "docs/exactness.md";

/// Measures how exact the limiter is, and writes `docs/exactness.md`
///
/// Each algorithm runs at several loads and with several kinds of arrivals, on one CPU and on two, beside its definition. The
/// exit code is success only when every promise is kept; then the page is written.
#[derive(Args)]
pub struct Arguments {
    /// Measure less, in about a minute, and write nothing
    #[arg(long)]
    quick: bool,
}

/// Measures. The exit code is that of the program that does.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::build()?;
    // What is measured is the BPF object that is released, which has no log.
    let mut build = process::cargo();
    build
        .args(["build", "--release", "--package", "ratelimit-tests"])
        .args(["--bin", "exactness"])
        .env("RATELIMIT_BPF_LOG", "off");
    process::run(&mut build)?;
    process::status(&mut measure(arguments)?).map(process::exit_code)
}

/// Loading BPF is for root; building was not.
fn measure(arguments: &Arguments) -> Result<Command> {
    let binary = workspace::target_dir().join("release/exactness");
    let mut command = process::as_root(&binary.to_string_lossy())?;
    command.current_dir(workspace::root());
    if arguments.quick {
        command.arg("--quick");
    } else {
        command.args(["--page", PAGE]);
    }
    Ok(command)
}
