//! The limiter at work, on real packets, between two network namespaces. `cargo xtask demo` builds and runs it.
//!
//! It knows nothing of the limiter but what a user does: a configuration file, `rlctl`, and what comes through. What should
//! come through is worked out anew from the times at which packets were sent, see [`oracle`]. With `--cluster` three nodes share
//! a limit and a ban, see [`cluster`].

use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use ratelimit_tests::skip;

mod bans;
mod cluster;
mod figures;
mod frame;
mod interrupt;
mod metrics;
mod oracle;
mod plan;
mod replay;
mod screen;
mod sender;
mod stage;
mod tap;
mod traffic;
mod wire;

use figures::Figures;
use screen::Screen;
use stage::Stage;

/// Of wrong figures, this many are reported.
const REPORTED_MAX: usize = 20;

/// Limits real traffic between two network namespaces, and checks every figure
#[derive(Parser)]
struct Arguments {
    /// Replay this capture (Ethernet) as the attack
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Show three nodes that share limits and bans through a Redis
    #[arg(long, conflicts_with = "capture")]
    cluster: bool,
}

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        skip::is_root(),
        "this makes namespaces and loads a BPF program, which needs root"
    );
    interrupt::listen()?;
    let start = Instant::now();
    let shown = if arguments.cluster {
        cluster::run()
    } else {
        show(arguments)
    };
    match shown {
        _ if interrupt::came() => {
            eprintln!("\ninterrupted; what the demo made is removed");
            Ok(ExitCode::from(interrupt::EXIT_CODE))
        }
        result => Ok(conclude(&result?, start)),
    }
}

fn show(arguments: &Arguments) -> Result<Figures> {
    let screen = Screen::new();
    screen.heading("Two network namespaces, and ratelimitd in one of them with this file");
    print!("{}", plan::configuration());
    let mut stage = Stage::set(screen)?;
    traffic::run(&mut stage)?;
    replay::run(&mut stage, arguments.capture.as_deref())?;
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
    for sentence in wrong.iter().take(REPORTED_MAX) {
        eprintln!("{sentence}");
    }
    ExitCode::FAILURE
}
