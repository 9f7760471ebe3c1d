//! `cargo xtask kernels`: tests of the BPF program on the supported kernels.
//!
//! Verifiers differ between kernels. Debian's kernels boot in an emulator with the tests as init;
//! nothing is installed or changed outside the target directory.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;

use self::guest::Clock;
use crate::{setup, workspace};

pub mod guest;
pub mod guest_program;
mod image;
pub mod initramfs;
mod modules;

/// The oldest kernel that is promised, and the one of Debian 13, also with `PREEMPT_RT`.
const SERIES: [&str; 3] = ["6.1", "6.12", "6.12-rt"];

/// Tests that need no second machine and tell most about a kernel.
pub const TESTS: [&str; 4] = ["verifier", "layers", "agreement", "vlan_clients"];

/// The arguments of the test binaries.
const TEST_ARGUMENTS: &str = "--nocapture --test-threads=1";

/// Tests the BPF program on Debian's kernels 6.1 and 6.12, and a real-time one, in an emulator
#[derive(Args)]
pub struct Arguments {
    /// The series of kernels, with `-rt` for real-time ones
    #[arg(default_values = SERIES)]
    series: Vec<String>,
}

/// Boots each kernel with the tests. A series that Debian has not is reported as SKIPPED.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::kernels()?;
    let directory = directory()?;
    let tests = guest_program::build_tests(&TESTS)?;
    let initramfs = initramfs::build(&directory, &tests, TEST_ARGUMENTS, &[])?;
    let mut failed = vec![];
    for series in &arguments.series {
        if !test(series, &initramfs, &directory)? {
            failed.push(series.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: tests failed on {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Whether the tests pass on the newest kernel of a series.
fn test(series: &str, initramfs: &Path, directory: &Path) -> Result<bool> {
    let Some(passed) = boot(series, initramfs, directory, Clock::Host)? else {
        return Ok(true);
    };
    for test in TESTS {
        let answer = if passed.contains(test) {
            "passed"
        } else {
            "FAILED"
        };
        println!("{series}: {test}: {answer}");
    }
    Ok(TESTS.iter().all(|test| passed.contains(*test)))
}

/// Returns the directory for kernels and archives.
pub fn directory() -> Result<PathBuf> {
    let directory = workspace::target_dir().join("kernels");
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    Ok(directory)
}

/// Boots the newest kernel of a series, and answers which programs of the archive ended well.
/// `None` when apt knows no such kernel, which is reported as SKIPPED.
pub fn boot(
    series: &str,
    initramfs: &Path,
    directory: &Path,
    clock: Clock,
) -> Result<Option<HashSet<String>>> {
    let Some(package) = image::newest(series)? else {
        println!("SKIPPED: kernels: apt knows no package of Linux {series}");
        return Ok(None);
    };
    let kernel = image::fetch(&package, directory)?;
    println!("{package}:");
    let initramfs = modules::behind(initramfs, &package, directory)?;
    guest::run(&kernel, &initramfs, clock).map(Some)
}
