//! `cargo xtask fuzz`: fuzzes the readers of foreign bytes with libFuzzer, guided by coverage.
//!
//! Stable compilers have the coverage pass. An address sanitizer would need a nightly compiler, and
//! the only `unsafe` in the fuzzed code is that of the cursor.

use std::{env::consts::ARCH, fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::{process, setup, workspace};

/// Fuzzes what reads bytes of others: packets, files, requests
///
/// The exit code is success when nothing was found in that time. What was found is in
/// `target/fuzz/found`, and the inputs that reached new code are kept in `target/fuzz/corpus` for
/// the next run.
#[derive(Args)]
pub struct Arguments {
    /// What is fuzzed
    name: Target,
    /// For how long
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Target {
    Parser,
    Configuration,
    Lists,
    Api,
    Capture,
    Database,
}

/// The compiler flags that libFuzzer needs: counters in each block, and the operands of
/// comparisons.
const COVERAGE: &str = "-Cpasses=sancov-module \
     -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares \
     --cfg fuzzing";

/// Builds the target, and runs it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::fuzz()?;
    let name = arguments.name.name();
    build(arguments.name)?;

    let directory = workspace::target_dir().join("fuzz");
    let (corpus, found) = (directory.join("corpus").join(name), directory.join("found"));
    for made in [&corpus, &found] {
        fs::create_dir_all(made).with_context(|| made.display().to_string())?;
    }
    let mut fuzzer = process::in_root(directory.join(machine()).join("release").join(name));
    fuzzer
        .arg(format!("-max_total_time={}", arguments.seconds))
        .arg(format!("-artifact_prefix={}/{name}-", found.display()))
        .args([
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-max_len=16384",
            "-print_final_stats=1",
        ])
        .arg(corpus)
        .args(arguments.name.seeds());
    process::status(&mut fuzzer).map(process::exit_code)
}

fn build(target: Target) -> Result<()> {
    let mut cargo = process::cargo();
    cargo
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target", &machine(), "--bin", target.name()])
        .arg("--target-dir")
        .arg(workspace::target_dir().join("fuzz"))
        .env("RUSTFLAGS", COVERAGE);
    if matches!(target, Target::Database) {
        setup::build()?;
        cargo.args(["--features", "daemon"]);
    }
    process::run(&mut cargo)
}

/// Returns the machine that this runs on. If it is named, cargo does not apply the flags to build
/// scripts.
fn machine() -> String {
    format!("{ARCH}-unknown-linux-gnu")
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Parser => "parser",
            Self::Configuration => "configuration",
            Self::Lists => "lists",
            Self::Api => "api",
            Self::Capture => "capture",
            Self::Database => "database",
        }
    }

    /// Directories of the repository whose files are good inputs to begin with.
    fn seeds(self) -> Vec<PathBuf> {
        let seeds = match self {
            Self::Configuration => "contrib",
            Self::Lists => "ratelimit-core/src/lists/tests/samples",
            Self::Parser | Self::Api | Self::Capture => "fuzz/seeds",
            Self::Database => return vec![],
        };
        vec![workspace::root().join(seeds)]
    }
}
