//! Where the compiled program comes from.

use std::{env, fs};

use anyhow::{Context, Result};

/// The variable with the path of the compiled program.
const PATH: &str = "RATELIMIT_BPF_OBJECT";

/// The compiled program.
pub(super) fn read() -> Result<Vec<u8>> {
    let path = env::var(PATH).with_context(|| format!("{PATH} is not set"))?;
    fs::read(&path).with_context(|| format!("reading {path}"))
}
