//! `cargo xtask build`: `ratelimitd` and `rlctl`, with the BPF object in them.

use anyhow::Result;
use clap::Args;

use crate::{process, setup, workspace};

/// Builds `ratelimitd` and `rlctl`, after installing what that needs
#[derive(Args)]
pub struct Arguments {
    /// Build what one would install, optimized
    #[arg(long)]
    release: bool,
}

/// Builds the binaries.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::build()?;
    let profile = if arguments.release { "release" } else { "dev" };
    process::run(
        process::cargo()
            .args([
                "build",
                "--package",
                "ratelimit-daemon",
                "--package",
                "rlctl",
                "--bins",
            ])
            .args(["--profile", profile]),
    )?;
    let directory = if arguments.release {
        "release"
    } else {
        "debug"
    };
    for binary in ["ratelimitd", "rlctl"] {
        println!(
            "{}",
            workspace::target_dir()
                .join(directory)
                .join(binary)
                .display()
        );
    }
    Ok(())
}
