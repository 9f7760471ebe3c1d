//! Plays failures of a cluster under traffic, a seed each, and prints what became of them.
//! `cargo xtask campaign` builds and runs it.

use std::{
    collections::BTreeMap,
    ops::Range,
    panic,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use clap::Parser;
use ratelimit_tests::{
    cluster::campaign::{Deadlines, Failure, FailureResult, Rig},
    debian,
    sequences::{self, Step},
    skip,
};

/// Plays failures of a cluster under traffic
#[derive(Parser)]
struct Arguments {
    /// How many failures, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    from: u64,
    /// Take longer deadlines, for a machine that does much else
    #[arg(long)]
    busy: bool,
    /// Play sequences of reloads, trials, ends and starts of one daemon
    #[arg(long, conflicts_with = "busy")]
    sequences: bool,
    /// Play sequences of this step alone
    #[arg(long, value_name = "STEP", requires = "sequences")]
    only: Option<Step>,
    /// How many sequences to play at a time, each in namespaces of its own
    #[arg(long, value_name = "N", default_value_t = 4, requires = "sequences")]
    jobs: usize,
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
    let seeds = arguments.from..arguments.from.saturating_add(arguments.seeds);
    if arguments.sequences {
        return Ok(sequences(seeds, arguments));
    }
    ensure!(
        debian::directory("redis-server").is_dir(),
        "this needs the Debian package redis-server, which `cargo xtask setup` unpacks"
    );
    let deadlines = if arguments.busy {
        Deadlines::BUSY
    } else {
        Deadlines::PROMISED
    };
    let played = Rig::new(deadlines)?.play(seeds, |seed, outcome| {
        let FailureResult {
            failure,
            lasted,
            part,
            told,
            back,
            spread,
        } = outcome;
        eprintln!(
            "seed {seed}: {}, {lasted:?}: {:.0} % of the bound, told after {told:.2?}, together \
             again after {back:.2?}, changes on all nodes after {spread:.2?}",
            failure.name(),
            part * 100.0
        );
    })?;
    print!("{}", table(&played.outcomes));
    let slowest = played.outcomes.iter().map(|it| it.spread).max();
    println!(
        "\nA ban, its end, or an allow was on all nodes after {:.2?} at most.",
        slowest.unwrap_or_default()
    );
    for (place, (before, after)) in (1..).zip(&played.memory) {
        println!(
            "The daemon edge-{place} had {} KiB of memory before, {} KiB after.",
            before >> 10,
            after >> 10
        );
    }
    played.check_memory(&deadlines)?;
    Ok(ExitCode::SUCCESS)
}

/// The results of the sequences played so far.
#[derive(Default)]
struct Sequences {
    played: AtomicU64,
    sent: AtomicU64,
    bad: AtomicU64,
}

impl Sequences {
    fn play(&self, seed: u64, only: Option<Step>) {
        self.played.fetch_add(1, Relaxed);
        // A daemon that had to repair its tables ends a sequence by a panic.
        match panic::catch_unwind(|| sequences::play(seed, only)) {
            Ok(Ok(sequence)) => {
                let text = &sequence.text;
                eprintln!("seed {seed}: {} passed: {text}", sequence.passed);
                self.sent.fetch_add(sequence.sent, Relaxed);
                self.bad.fetch_add(u64::from(sequence.passed > 0), Relaxed);
            }
            Ok(Err(error)) => {
                eprintln!("seed {seed}: failed: {error:#}");
                self.bad.fetch_add(1, Relaxed);
            }
            Err(_) => {
                eprintln!("seed {seed}: failed: see above");
                self.bad.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Prints the sequences in which packets passed or something else failed, and how many did. Most of
/// a sequence is waiting, so several are played at a time.
fn sequences(seeds: Range<u64>, arguments: &Arguments) -> ExitCode {
    let (came_to, next) = (Sequences::default(), AtomicU64::new(seeds.start));
    thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Relaxed)
                    && seed < seeds.end
                {
                    came_to.play(seed, arguments.only);
                }
            });
        }
    });
    let [played, sent, bad] =
        [came_to.played, came_to.sent, came_to.bad].map(AtomicU64::into_inner);
    println!("{bad} of {played} sequences went wrong, with {sent} packets sent.");
    ExitCode::from(u8::from(bad > 0))
}

/// A line for each kind of failure.
fn table(outcomes: &[FailureResult]) -> String {
    let mut kinds: BTreeMap<Failure, Vec<&FailureResult>> = BTreeMap::new();
    for outcome in outcomes {
        kinds.entry(outcome.failure).or_default().push(outcome);
    }
    let mut text = "| failure, up to 4 s | times | admitted of the bound, most | told after, s, \
                    most | limits divided again after, s, median | most |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for (failure, outcomes) in kinds {
        let parts = outcomes.iter().map(|it| it.part);
        let most = parts.fold(0.0, f64::max) * 100.0;
        let mut backs: Vec<Duration> = outcomes.iter().map(|it| it.back).collect();
        backs.sort_unstable();
        let seconds = |place: usize| backs.get(place).map_or(0.0, Duration::as_secs_f64);
        let told = outcomes.iter().filter_map(|it| it.told).max();
        let told = told.map_or_else(|| "-".to_owned(), |it| format!("{:.2}", it.as_secs_f64()));
        let row = format!(
            "| {} | {} | {most:.0} % | {told} | {:.2} | {:.2} |\n",
            failure.name(),
            outcomes.len(),
            seconds(backs.len() / 2),
            seconds(backs.len() - 1)
        );
        text.push_str(&row);
    }
    text
}
