//! `cargo xtask campaign`: failures of a cluster under traffic, at random moments, or sequences of
//! ends and starts of one daemon.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{process, setup, workspace};

/// Plays failures of a cluster under traffic, at random moments
///
/// Three daemons with a real Redis share a limit, and one source sends ten times as much. Redis is
/// killed, frozen, filled, flushed, restarted, read-only, slow, takes no writes or fails over, a
/// node is cut off, and a daemon killed. The exit code is success only when all nodes together
/// admit no more than the bound each time, and no ban opens. Status, metrics and log have to tell
/// of a loss within 2 s. All has to work again 10 s after it ended, and a ban to be on all nodes
/// within a second. No daemon may grow.
#[derive(Args)]
pub struct Arguments {
    /// How many failures, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed: the same one is the same failure
    #[arg(long, value_name = "S", default_value_t = 1)]
    from: u64,
    /// Take longer deadlines, for a machine that does much else
    #[arg(long)]
    busy: bool,
    /// Play sequences of reloads, trials, ends and starts of one daemon instead
    ///
    /// Each is of four steps between seventeen kinds of rules, with any of fourteen other features
    /// in use beside them, under traffic of a source that all rules refuse. The exit code is
    /// success only when none of its packets passes that no limit admits.
    #[arg(long, conflicts_with = "busy")]
    sequences: bool,
    /// Play sequences of this step alone, like killed-at-start
    #[arg(long, value_name = "STEP", requires = "sequences")]
    only: Option<String>,
    /// How many sequences to play at a time
    #[arg(long, value_name = "N", requires = "sequences")]
    jobs: Option<usize>,
}

/// Plays them. The exit code is that of the program that does.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    setup::demo()?;
    if !arguments.sequences {
        setup::redis()?;
    }
    process::build_with_daemon(Some("campaign"))?;
    process::status(&mut play(arguments)?).map(process::exit_code)
}

/// Loading BPF is for root; building was not.
fn play(arguments: &Arguments) -> Result<Command> {
    let binary = workspace::target_dir().join("debug/campaign");
    let mut command = process::as_root(&binary.to_string_lossy())?;
    command.current_dir(workspace::root());
    command.args(["--seeds", &arguments.seeds.to_string()]);
    command.args(["--from", &arguments.from.to_string()]);
    for (name, is_wanted) in [
        ("--busy", arguments.busy),
        ("--sequences", arguments.sequences),
    ] {
        command.args(is_wanted.then_some(name));
    }
    if let Some(step) = &arguments.only {
        command.args(["--only", step]);
    }
    if let Some(jobs) = arguments.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    Ok(command)
}
