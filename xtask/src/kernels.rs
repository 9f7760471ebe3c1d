//! `cargo xtask kernels`: the tests of the BPF program, on the kernels that it promises to run on.
//!
//! Verifiers differ: what one takes another refuses. Debian's kernels boot in an emulator, with the tests in place of an init;
//! nothing of them is installed, and nothing outside the target directory is changed.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::{setup, workspace};

mod guest;
mod image;
mod initramfs;
mod modules;
mod test_binary;

/// The oldest kernel that is promised, and the one of Debian 13.
const SERIES: [&str; 2] = ["6.1", "6.12"];

/// What need no second machine, and tell most about a kernel.
pub const TESTS: [&str; 4] = ["verifier", "layers", "agreement", "vlan_clients"];

/// Tests the BPF program on Debian's kernels 6.1 and 6.12, in an emulator
#[derive(Args)]
pub struct Arguments {
    /// The series of kernels
    #[arg(default_values = SERIES)]
    series: Vec<String>,
}

/// Boots each kernel with the tests. A series that Debian has not is reported as SKIPPED.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::kernels()?;
    let directory = workspace::target_dir().join("kernels");
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let initramfs = initramfs::build(&directory, &test_binary::build_all(&TESTS)?)?;
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
    let Some(package) = image::newest(series)? else {
        println!("SKIPPED: kernels: apt knows no linux-image-{series}.*-cloud-amd64");
        return Ok(true);
    };
    let kernel = image::fetch(&package, directory)?;
    println!("{package}:");
    let initramfs = modules::behind(initramfs, &package, directory)?;
    let passed = guest::run(&kernel, &initramfs)?;
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
