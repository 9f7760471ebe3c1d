//! `cargo xtask demo`: the limiter at work on real traffic.

use std::{os::unix::process::CommandExt as _, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, setup, workspace};

/// Limits real traffic between two network namespaces, and checks every figure
///
/// It installs what is missing and builds first, and removes what it made at the end; Ctrl-C is an end, too.
#[derive(Args)]
pub struct Arguments {
    /// Replay this capture (pcap or pcapng, Ethernet) as the attack
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Show three nodes that share limits and bans through a Redis, which is killed and started again
    #[arg(long, conflicts_with = "capture")]
    cluster: bool,
    /// Use the binaries that were built before
    #[arg(long)]
    no_build: bool,
}

/// Shows the limiter at work. The exit code is success only when every figure is what the limits say.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.no_build {
        setup::demo()?;
        if arguments.cluster {
            setup::redis()?;
        }
        eprintln!(
            "demo: building ratelimitd, rlctl and the demo; the BPF program is optimized, the rest for a short build"
        );
        process::build_beside_daemon("demo")?;
    }
    // Namespaces and BPF are for root; building was not.
    let binary = workspace::target_dir().join("debug/demo");
    let mut command = process::as_root(&binary.to_string_lossy())?;
    if let Some(capture) = &arguments.capture {
        command.arg("--capture").arg(capture);
    }
    if arguments.cluster {
        command.arg("--cluster");
    }
    // Its place, so that Ctrl-C waits until everything is removed.
    Err(command.exec()).with_context(|| format!("running {}", binary.display()))
}
