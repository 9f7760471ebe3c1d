//! `cargo xtask instructions`: how many instructions a packet takes, whatever else the machine
//! does.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{
    bench,
    kernels::{self, guest::Clock, guest_program::GuestProgram, initramfs},
    process, setup, workspace,
};

/// The kernel of Debian 13.
const SERIES: &str = "6.12";

const BENCH: &str = "ratelimit-bench";

/// Some ticks of the coarse clock: what lists answer is cached in an eighth of them.
const EFFORT: &str = "--quick --packets 200000 --rounds 3";

/// Counts the instructions that packets take, in an emulator in which each takes a nanosecond
///
/// On a shared machine times differ by more than a lookup in a map costs; instructions do not. They
/// are no times: waiting for memory counts for nothing. The table is that of `cargo xtask bench`,
/// with instructions for nanoseconds, on Debian's kernel 6.12. It takes some minutes for each
/// scenario.
#[derive(Args)]
pub struct Arguments {
    /// Count those of the core cases whose names contain one of these
    #[arg(required = true, value_name = "TEXT")]
    filter: Vec<String>,
}

/// Boots the benchmark.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::bench()?;
    setup::kernels()?;
    let harness = bench::build_harness()?;
    let mut build = process::cargo();
    build.args(["build", "--package", BENCH]);
    process::run(build.env("RATELIMIT_BPF_LOG", "off"))?;
    let program = GuestProgram {
        name: BENCH.to_owned(),
        path: workspace::target_dir().join("debug").join(BENCH),
    };
    let filter = arguments.filter.iter();
    let filter: Vec<String> = filter.map(|text| format!("--filter {text}")).collect();
    let words = format!("--harness /bench {EFFORT} {}", filter.join(" "));
    let directory = kernels::directory()?;
    let initramfs = initramfs::build(&directory, &[program], &words, &[&harness])?;
    let ended = kernels::boot(SERIES, &initramfs, &directory, Clock::Instructions)?;
    let is_counted = ended.is_none_or(|programs| programs.contains(BENCH));
    Ok(ExitCode::from(u8::from(!is_counted)))
}
