//! `cargo xtask goodput`: the flood that a web server withstands, by limiter.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{bench, setup};

/// Measures which floods a web server withstands, without a limiter and with several
///
/// wrk asks nginx for pages while a flood arrives. The flood is raised until wrk gets half of the
/// pages. Nothing leaves the network namespaces of the measurement.
#[derive(Args)]
pub struct Arguments {
    /// Measure the floods whose names contain one of these
    #[arg(long, value_name = "TEXT")]
    filter: Vec<OsString>,

    /// Rounds, in each of which all take turns
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: OsString,

    /// Measure XDP-Firewall too, of this checkout
    #[arg(long, value_name = "DIR")]
    xdp_firewall: Option<OsString>,

    /// Write the figures into docs/performance.md, with a plot
    #[arg(long)]
    write: bool,
}

/// Builds the benchmark and measures. The exit code is the benchmark's.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::goodput()?;
    if arguments.xdp_firewall.is_some() {
        setup::xdp_firewall()?;
    }
    let mut passed_on: Vec<OsString> = vec!["--goodput".into()];
    for filter in &arguments.filter {
        passed_on.extend(["--filter".into(), filter.clone()]);
    }
    passed_on.extend(["--rounds".into(), arguments.rounds.clone()]);
    if let Some(checkout) = &arguments.xdp_firewall {
        passed_on.extend(["--xdp-firewall".into(), checkout.clone()]);
    }
    if arguments.write {
        passed_on.push("--write".into());
    }
    bench::run_with(&passed_on)
}
