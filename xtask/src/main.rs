//! The tools of the repository: `cargo xtask COMMAND`.
//!
//! A file holds one command. None of them knows the other crates: they are built, and run, as a
//! user would.
// A new variant must be handled everywhere.
#![warn(clippy::wildcard_enum_match_arm)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

mod bench;
mod build;
mod campaign;
mod check;
mod demo;
mod exactness;
mod floods;
mod fuzz;
mod goodput;
mod instructions;
mod kernels;
mod lines;
mod package;
mod process;
mod release;
mod setup;
mod test;
mod workspace;

/// Builds, tests and checks ratelimit
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Installs what building and testing need
    Setup,
    Build(build::Arguments),
    Check(check::Arguments),
    Test(test::Arguments),
    Demo(demo::Arguments),
    Bench(bench::Arguments),
    Goodput(goodput::Arguments),
    Instructions(instructions::Arguments),
    Kernels(kernels::Arguments),
    Lines(lines::Arguments),
    Exactness(exactness::Arguments),
    Floods(floods::Arguments),
    Campaign(campaign::Arguments),
    Fuzz(fuzz::Arguments),
    Package(package::Arguments),
    Release(release::Arguments),
}

fn main() -> ExitCode {
    run(&Command::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Setup => setup::everything(|| Ok(())).map(|()| ExitCode::SUCCESS),
        Command::Build(arguments) => build::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Check(arguments) => check::run(arguments),
        Command::Test(arguments) => test::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Goodput(arguments) => goodput::run(arguments),
        Command::Instructions(arguments) => instructions::run(arguments),
        Command::Kernels(arguments) => kernels::run(arguments),
        Command::Lines(arguments) => lines::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Exactness(arguments) => exactness::run(arguments),
        Command::Floods(arguments) => floods::run(arguments),
        Command::Campaign(arguments) => campaign::run(arguments),
        Command::Fuzz(arguments) => fuzz::run(arguments),
        Command::Package(arguments) => package::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Release(arguments) => release::run(arguments),
    }
}
