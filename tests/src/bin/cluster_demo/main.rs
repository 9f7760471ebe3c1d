//! Three nodes that share limits and bans through a Redis, with every figure checked: `cargo xtask
//! demo --cluster`. `rlctl demo` shows one host.

use std::{process::ExitCode, time::Instant};

use anyhow::{Result, ensure};
use ratelimit_tests::skip;

mod cluster;
mod figures;
mod interrupt;
mod screen;

use figures::Figures;

/// The most wrong figures that are reported.
const REPORTED_MAX: usize = 20;

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    ensure!(
        skip::is_root(),
        "this makes namespaces and loads a BPF program, which needs root"
    );
    interrupt::listen()?;
    let start = Instant::now();
    match cluster::run() {
        _ if interrupt::came() => {
            eprintln!("\ninterrupted; everything is removed");
            Ok(ExitCode::from(interrupt::EXIT_CODE))
        }
        result => Ok(conclude(&result?, start)),
    }
}

fn conclude(figures: &Figures, start: Instant) -> ExitCode {
    let (seconds, checked) = (start.elapsed().as_secs(), figures.checked());
    println!("\nEverything is removed. It took {seconds} s.");
    let wrong = figures.wrong();
    if wrong.is_empty() {
        println!("All {checked} figures match the limits.");
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {} of {checked} figures are wrong", wrong.len());
    for sentence in wrong.iter().take(REPORTED_MAX) {
        eprintln!("{sentence}");
    }
    ExitCode::FAILURE
}
