//! `cargo xtask demo`: builds and runs `rlctl demo`, or the demo of a cluster.

use std::{os::unix::process::CommandExt as _, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, setup, workspace};

/// Limits real traffic between two network namespaces with `rlctl demo`
///
/// It installs what is missing and builds first, and removes everything at the end, also after
/// Ctrl-C.
#[derive(Args)]
pub struct Arguments {
    /// Show three nodes that share limits and bans through a Redis, which is killed and started
    /// again
    #[arg(long)]
    cluster: bool,
    /// Use the binaries that were built before
    #[arg(long)]
    no_build: bool,
}

/// Shows the limiter at work. The exit code is success only if every count matches the limits.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (program, words) = if arguments.cluster {
        ("cluster_demo", &[][..])
    } else {
        ("rlctl", &["demo"][..])
    };
    if !arguments.no_build {
        setup::demo()?;
        if arguments.cluster {
            setup::redis()?;
        }
        eprintln!("demo: building with an optimized BPF program and debug builds of the rest");
        process::build_with_daemon(arguments.cluster.then_some(program))?;
    }
    // Namespaces and BPF need root; building did not.
    let binary = workspace::target_dir().join("debug").join(program);
    let mut command = process::as_root(&binary.to_string_lossy())?;
    // Replaces this process, so that Ctrl-C waits until everything is removed.
    Err(command.args(words).exec()).with_context(|| format!("running {}", binary.display()))
}
