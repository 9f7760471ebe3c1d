//! `cargo xtask floods`: sends floods of forged sources, and writes what became of them into the
//! documentation.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{process, setup};

/// The page with the measurements.
const PAGE: &str = "docs/floods.md";

/// Sends floods of forged sources through each store, and writes `docs/floods.md`
///
/// A flood forges from a quarter to sixteen times as many sources as can have state, with 1 to 8
/// packets each. Meanwhile known sources keep to their limit and one does not. The exit code is
/// success only when every promise is kept; then the page is written.
#[derive(Args)]
pub struct Arguments {
    /// Draw the random numbers from this, and write nothing
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Measures. The exit code is that of the program that does.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::build()?;
    match arguments.seed {
        Some(seed) => process::measured("floods", &["--seed", &seed.to_string()]),
        None => process::measured("floods", &["--page", PAGE]),
    }
}
