//! `cargo xtask exactness`: measures how exact the limiter is, and writes what it measured into the
//! documentation.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{process, setup};

/// The page with the measurements.
const PAGE: &str = "docs/exactness.md";

/// Measures how exact the limiter is, and writes `docs/exactness.md`
///
/// Each algorithm runs at several loads and with several kinds of arrivals, on one CPU and on two,
/// beside its definition. The exit code is success only when every promise is kept; then the page
/// is written.
#[derive(Args)]
pub struct Arguments {
    /// Measure less, in about a minute, and write nothing
    #[arg(long)]
    quick: bool,
}

/// Measures. The exit code is that of the program that does.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::build()?;
    let page = ["--page", PAGE];
    let words = if arguments.quick {
        &["--quick"][..]
    } else {
        &page
    };
    process::measured("exactness", words)
}
