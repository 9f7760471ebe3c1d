//! Rust's standard library for arm64, which `cargo xtask check` type-checks for.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// The target of 64-bit ARM.
pub const ARM64: &str = "aarch64-unknown-linux-gnu";

/// Installs the library if it is missing.
pub fn install_arm64() -> Result<()> {
    process::output(Command::new("rustup").args(["target", "add", ARM64]))
        .with_context(|| format!("rustup target add {ARM64}"))
        .map(drop)
}
