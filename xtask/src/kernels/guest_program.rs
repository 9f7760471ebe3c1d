//! Programs for the guest.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::process;

/// A program that was built.
pub struct GuestProgram {
    /// Its name; of a test as `cargo test --test` takes it.
    pub name: String,
    pub path: PathBuf,
}

/// Builds tests of the crate `ratelimit-tests`, with the BPF object that is released.
pub fn build_tests(names: &[&str]) -> Result<Vec<GuestProgram>> {
    let mut cargo = process::cargo();
    cargo
        .args(["test", "--package", "ratelimit-tests", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .env("RATELIMIT_BPF_LOG", "off")
        .stderr(std::process::Stdio::inherit());
    for name in names {
        cargo.args(["--test", name]);
    }
    process::output(&mut cargo)?
        .lines()
        .map(|line| serde_json::from_str(line).context("reading what cargo says"))
        .filter_map(|message| message.map(|message| executable(&message)).transpose())
        .collect()
}

/// The test that a message of cargo's tells about. The programs of the package are built beside
/// them, and are none.
fn executable(message: &Value) -> Option<GuestProgram> {
    let is_test = message["target"]["kind"] == json!(["test"]);
    is_test.then_some(())?;
    Some(GuestProgram {
        name: message["target"]["name"].as_str()?.to_owned(),
        path: message["executable"].as_str()?.into(),
    })
}
