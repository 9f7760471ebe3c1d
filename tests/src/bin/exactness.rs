//! Measures how exact the limiter is, prints it, and fails when a promise is broken.
//! `cargo xtask exactness` builds and runs it.

use std::{fmt::Write, path::PathBuf, process::ExitCode, time::Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use ratelimit_tests::{
    cpu,
    exactness::{
        Cell, Clock, Row,
        increments::{self, Increments},
        matrix::{Effort, Programs},
        page as tables,
    },
    page, progress, skip,
};

/// Measures how exact the limiter is
#[derive(Parser)]
struct Arguments {
    /// Measure less, in under a minute
    #[arg(long)]
    quick: bool,
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
    ensure!(
        cpu::count() >= 2,
        "this needs 2 CPUs; this process may use one"
    );
    let (effort, each) = if arguments.quick {
        (Effort::QUICK, 5_000_000)
    } else {
        (Effort::FULL, 500_000_000)
    };
    let mut text = page::circumstances()?;
    let mut broken = vec![];
    let mut programs = Programs::load()?;
    for (heading, clock) in [
        ("Virtual time", Clock::Virtual),
        ("Real time in the kernel", Clock::Real),
    ] {
        let measured = measure(clock, &mut programs, effort)?;
        broken.extend(measured.iter().filter_map(|(cell, row)| {
            let promise = cell.broken(row)?;
            Some(format!("{}: {promise}", tables::cell_names(cell).join(" ")))
        }));
        write!(
            text,
            "\n## {heading}\n\n{}",
            tables::table(clock, &measured)
        )?;
    }
    let counted = count(each)?;
    if !counted.is_exact() {
        broken.push("two CPUs: not every increment is where it has to be".to_owned());
    }
    write!(
        text,
        "\n## Increments of two CPUs\n\n{}",
        tables::increments(&counted)
    )?;
    page::publish(&text, &broken, arguments.page.as_deref())
}

fn measure(clock: Clock, programs: &mut Programs, effort: Effort) -> Result<Vec<(Cell, Row)>> {
    let cells: Vec<Cell> = Cell::all(clock).collect();
    let (count, start) = (cells.len(), Instant::now());
    let mut measured = vec![];
    for (number, cell) in (1..).zip(cells) {
        progress::show(&format!(
            "{clock:?} {number} of {count}: {}",
            tables::cell_names(&cell).join(" ")
        ));
        measured.push((cell, cell.measure(programs, effort)?));
    }
    progress::show("");
    eprintln!("{clock:?} time: {count} cells in {:.0?}", start.elapsed());
    Ok(measured)
}

fn count(each: u32) -> Result<Increments> {
    progress::show("increments of two CPUs");
    let counted = increments::count(each)?;
    progress::show("");
    Ok(counted)
}
