//! `cargo xtask demo`: the limiter at work, on real packets, between two network namespaces of its own.
//!
//! It knows nothing of the limiter but what a user does: a configuration file, `rlctl`, and what comes through. What should
//! come through is worked out anew from the times at which packets were sent, see [`oracle`].

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, setup, workspace};

mod bans;
mod capture;
mod daemon;
mod figures;
mod frame;
mod interrupt;
mod lab;
mod metrics;
mod namespace;
mod oracle;
mod packet_socket;
mod plan;
mod replay;
mod rlctl;
mod scratch;
mod screen;
mod sender;
mod stage;
mod tap;
mod traffic;
mod wire;

use figures::Figures;
use screen::Screen;
use stage::Stage;

/// Of figures that are wrong, this many are told.
const TOLD_MAX: usize = 20;

/// Limits real traffic between two network namespaces, and checks every figure
///
/// It installs what is missing and builds first, and removes what it made at the end; Ctrl-C is an end, too.
#[derive(Args)]
pub struct Arguments {
    /// Replay this capture (classic pcap, Ethernet) as the attack
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Use the binaries that were built before
    #[arg(long)]
    no_build: bool,
}

/// Shows the limiter at work. The exit code is success only when every figure is what the limits say.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let binaries = workspace::target_dir().join("debug");
    if !arguments.no_build {
        setup::demo()?;
        build()?;
    }
    if !process::is_root()? {
        return run_as_root(arguments);
    }
    interrupt::listen()?;
    let start = Instant::now();
    match show(&binaries, arguments.capture.as_deref()) {
        _ if interrupt::came() => {
            eprintln!("\ninterrupted; what the demo made is removed");
            Ok(ExitCode::from(interrupt::EXIT_CODE))
        }
        result => Ok(conclude(&result?, start)),
    }
}

fn build() -> Result<()> {
    eprintln!(
        "demo: building ratelimitd and rlctl; the BPF program is optimized, the rest for a short build"
    );
    process::run(process::cargo().args([
        "build",
        "--package",
        "ratelimit-daemon",
        "--package",
        "rlctl",
        "--bins",
    ]))
}

/// Namespaces and BPF are for root; building was not.
fn run_as_root(arguments: &Arguments) -> Result<ExitCode> {
    // `env`, because sudo passes no environment on.
    let mut command = process::as_root("env")?;
    command
        .arg(format!(
            "CARGO_TARGET_DIR={}",
            workspace::target_dir().display()
        ))
        .arg(env::current_exe().context("looking for this program")?)
        .args(["demo", "--no-build"]);
    if let Some(capture) = &arguments.capture {
        command.arg("--capture").arg(capture);
    }
    process::status(&mut command).map(process::exit_code)
}

fn show(binaries: &Path, capture: Option<&Path>) -> Result<Figures> {
    let screen = Screen::new();
    screen.heading("Two network namespaces, and ratelimitd in one of them with this file");
    print!("{}", daemon::shown_configuration());
    let mut stage = Stage::set(binaries, screen)?;
    traffic::run(&mut stage)?;
    replay::run(&mut stage, capture)?;
    bans::run(&mut stage)?;
    metrics::run(&mut stage)?;
    stage.strike()
}

fn conclude(figures: &Figures, start: Instant) -> ExitCode {
    let (seconds, checked) = (start.elapsed().as_secs(), figures.checked());
    println!("\nEverything that the demo made is removed. It took {seconds} s.");
    let wrong = figures.wrong();
    if wrong.is_empty() {
        println!("All of {checked} figures are what the limits say.");
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {} of {checked} figures are wrong", wrong.len());
    for sentence in wrong.iter().take(TOLD_MAX) {
        eprintln!("{sentence}");
    }
    ExitCode::FAILURE
}
