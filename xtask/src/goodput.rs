//! `cargo xtask goodput`: goodput of a web server and a DNS server during floods, by limiter.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{bench, setup};

/// Measures what users of servers get during floods, without a limiter and with several
///
/// nginx and NSD serve what wrk and dnsperf ask at a steady pace, beside floods. Nothing leaves the
/// network namespaces of the measurement.
#[derive(Args)]
pub struct Arguments {
    /// Measure the floods whose names contain one of these
    #[arg(long, value_name = "TEXT")]
    filter: Vec<OsString>,

    /// Rounds, in each of which all take turns
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: OsString,

    /// Write the figures into docs/performance.md, with a plot
    #[arg(long)]
    write: bool,
}

/// Builds the benchmark and measures. The exit code is the benchmark's.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::goodput()?;
    let mut passed_on: Vec<OsString> = vec!["--goodput".into()];
    for filter in &arguments.filter {
        passed_on.extend(["--filter".into(), filter.clone()]);
    }
    passed_on.extend(["--rounds".into(), arguments.rounds.clone()]);
    if arguments.write {
        passed_on.push("--write".into());
    }
    bench::run_with(&passed_on)
}
