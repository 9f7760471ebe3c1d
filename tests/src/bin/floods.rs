//! Sends each flood of the campaign through each store, prints what became of it, and fails when a
//! promise is broken. `cargo xtask floods` builds and runs it.

use std::{fmt::Write, path::PathBuf, process::ExitCode};

use anyhow::{Result, ensure};
use clap::Parser;
use ratelimit_tests::{
    flood::{Cell, FloodResult, Rig, Store, page::table},
    page, progress, skip,
};

/// Sends floods of forged sources
#[derive(Parser)]
struct Arguments {
    /// Sources that can have state
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    capacity: u32,
    /// Windows that a flood lasts
    #[arg(long, value_name = "N", default_value_t = 4)]
    windows: u32,
    /// The seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write what was measured into this page
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        skip::is_root(),
        "this loads a BPF program, which needs root"
    );
    let mut text = page::circumstances()?;
    let mut broken = vec![];
    for store in Store::ALL {
        let measured = measure(store, arguments)?;
        broken.extend(measured.iter().filter_map(|(cell, outcome)| {
            let sentence = outcome.broken(store, cell, arguments.capacity)?;
            Some(format!("{}, {cell:?}: {sentence}", store.name()))
        }));
        let table = table(store, arguments.capacity, &measured);
        write!(text, "\n## `{}`\n\n{table}", store.name())?;
    }
    page::publish(&text, &broken, arguments.page.as_deref())
}

fn measure(store: Store, arguments: &Arguments) -> Result<Vec<(Cell, FloodResult)>> {
    let cells: Vec<Cell> = Cell::all().collect();
    let count = cells.len();
    let mut rig = Rig::new(store, arguments.capacity);
    let mut measured = vec![];
    for (number, cell) in (1..).zip(cells) {
        progress::show(&format!("{} {number} of {count}", store.name()));
        measured.push((cell, rig.send(&cell, arguments.windows, arguments.seed)?));
    }
    progress::show("");
    Ok(measured)
}
