//! `cargo xtask bench`: the cost of a packet, as a ratio to an empty program.
//!
//! The crate `bench` measures; this builds it with its harness and runs it as root.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{process, setup, workspace};

/// The option of the benchmark that names a checkout.
const XDP_FIREWALL: &str = "--xdp-firewall";
/// The option that measures limits of keys beside those of other programs.
const KEYS: &str = "--keys";

/// Measures what a packet costs, as a ratio to an empty program
///
/// Everything that follows is passed on to the benchmark: `cargo xtask bench --help` is the help of
/// it.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Arguments of the benchmark
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    passed_on: Vec<OsString>,
}

/// Builds the benchmark and runs it. The exit code is the benchmark's.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    run_with(&arguments.passed_on)
}

/// Passes these arguments to the benchmark.
pub fn run_with(passed_on: &[OsString]) -> Result<ExitCode> {
    setup::bench()?;
    let has = |option| {
        let mut words = passed_on.iter().map(|word| word.to_string_lossy());
        words.any(|word| word.starts_with(option))
    };
    if has(XDP_FIREWALL) {
        setup::xdp_firewall()?;
    }
    if has(KEYS) {
        setup::key_limiters()?;
    }
    let harness = build_harness()?;
    let mut build = process::cargo();
    build.args(["build", "--release", "--package", "ratelimit-bench"]);
    // It watches the daemon too.
    build.args(["--package", "ratelimit-daemon", "--package", "rlctl"]);
    process::run(&mut build)?;
    let bench = workspace::target_dir().join("release/ratelimit-bench");
    let mut bench = process::as_root(&bench.to_string_lossy())?;
    bench.arg("--harness").arg(harness).args(passed_on);
    process::status(&mut bench).map(process::exit_code)
}

/// The BPF object, by the compiler that has the sources of `core`: the target comes without a built
/// one.
pub fn build_harness() -> Result<PathBuf> {
    let mut cargo = process::cargo_for_bpf("build");
    cargo
        .args(["--package", "ratelimit-bench-ebpf"])
        .args(["--features", "program"])
        .env("RUSTC", setup::compiler_with_sources());
    process::run(&mut cargo)?;
    Ok(workspace::target_dir()
        .join(workspace::BPF_TARGET)
        .join(workspace::BPF_PROFILE)
        .join("bench"))
}
