//! Plays any number of seeds: `cargo run -p ratelimit-cluster --release --example simulate --
//! --seeds 100000`.
//!
//! `--from N` begins with another seed, `--all` continues after a violation. `--moving MS` plays a
//! source that stays on a node that long at least, and up to `--varies MS` longer, by default twice
//! as long.

#[path = "../simulator/mod.rs"]
mod simulator;

use std::collections::BTreeMap;
use std::process::ExitCode;

use simulator::{Tally, run, run_moving};

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
    if let Some(stays) = number("--moving") {
        let varies = number("--varies").unwrap_or(stays);
        let parts: Result<Vec<u64>, _> = (from..from + seeds)
            .map(|seed| run_moving(seed, stays, varies))
            .collect();
        return match parts {
            Ok(parts) => {
                let mean = parts.iter().sum::<u64>() / parts.len().max(1) as u64;
                let (least, most) = (parts.iter().min(), parts.iter().max());
                println!("admitted of 1000: {mean}, at least {least:?}, at most {most:?}");
                ExitCode::SUCCESS
            }
            Err(violation) => {
                println!("{violation}");
                ExitCode::FAILURE
            }
        };
    }
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
