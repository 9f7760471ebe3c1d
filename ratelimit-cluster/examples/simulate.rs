//! Plays any number of seeds: `cargo run -p ratelimit-cluster --release --example simulate -- --seeds 100000`.
//!
//! `--from N` begins with another seed, `--all` goes on after a violation.

#[path = "../simulator/mod.rs"]
mod simulator;

use std::collections::BTreeMap;
use std::process::ExitCode;

use simulator::{Tally, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let value = arguments
            .iter()
            .skip_while(|argument| *argument != name)
            .nth(1)?;
        value.parse::<u64>().ok()
    };
    let is_all = arguments.iter().any(|argument| argument == "--all");
    let (from, seeds) = (
        number("--from").unwrap_or_default(),
        number("--seeds").unwrap_or(1_000),
    );
    let mut all = Tally::default();
    let mut violations: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seed in from..from + seeds {
        match run(seed) {
            Ok(tally) => all.add(tally),
            Err(violation) if is_all => violations
                .entry(format!("{:?}", violation.invariant))
                .or_default()
                .push(seed),
            Err(violation) => {
                println!("{violation}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{seeds} seeds: {all:?}");
    for (invariant, seeds) in &violations {
        println!(
            "{invariant}: {} seeds, such as {:?}",
            seeds.len(),
            seeds.iter().take(8).collect::<Vec<_>>()
        );
    }
    if violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
