//! Configurations and what happens to them, text for text.

mod accepted;
mod bans;
mod cases;
mod challenge;
mod classes;
mod cluster;
mod command_line;
mod contrib;
mod crowdsec;
mod destinations;
mod detection;
mod files;
mod interfaces;
mod keys;
mod limits;
mod lists;
mod new_sources;
mod places;
mod renamed;
mod replaced;
mod tunnels;
mod upstream;
mod warned;
mod wide;

use std::{fs, path::Path, time::Duration};

use tempfile::TempDir;

use super::{Config, ConfigError, inspect};
use crate::diagnostic::Diagnostic;

/// The lines that every file here needs and no case is about: 7.
const MINIMAL: &str = "\
[[interface]]
name = \"eth0\"

[policy.default]
limits = []

# --- the case ---
";

/// Loads `toml` as `config.toml`; `Ok` when it is accepted, else what is said of it.
#[track_caller]
fn check(toml: &str, expected: &str) {
    check_files(&[("config.toml", toml)], expected);
}

/// Loads `toml` with the minimal file before it, so that it begins with line 8.
#[track_caller]
fn check_behind_minimal(toml: &str, expected: &str) {
    check(&format!("{MINIMAL}{toml}"), expected);
}

fn policy_of(limits: &str) -> String {
    format!("[policy.a]\nsources = [\"10.0.0.0/8\"]\nlimits = [\n{limits}\n]\n")
}

#[track_caller]
fn check_files(files: &[(&str, &str)], expected: &str) {
    assert_eq!(refusal(files), expected, "{files:#?}");
}

/// What is said of files that are refused.
fn refusal(files: &[(&str, &str)]) -> String {
    let (answer, directory) = inspect_files(files);
    let answer = answer.err().map(|error| error.to_string());
    without(&directory, &answer.unwrap_or_default())
}

/// The warnings about `toml`, which is accepted.
#[track_caller]
fn check_warnings(toml: &str, expected: &str) {
    assert_eq!(warnings(toml), expected);
}

#[track_caller]
fn warnings(toml: &str) -> String {
    let (answer, directory) = inspect_files(&[("config.toml", toml)]);
    let (_, warnings) = answer.unwrap_or_else(|error| panic!("{error}"));
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    without(&directory, &warnings.join("\n"))
}

#[track_caller]
fn check_warnings_behind_minimal(toml: &str, expected: &str) {
    check_warnings(&format!("{MINIMAL}{toml}"), expected);
}

#[track_caller]
pub(in crate::config) fn load_text(toml: &str) -> Config {
    let (answer, _directory) = inspect_files(&[("config.toml", toml)]);
    answer.unwrap_or_else(|error| panic!("{error}\n{toml}")).0
}

type Answer = Result<(Config, Vec<Diagnostic>), ConfigError>;

/// Loads the first of `files`, with all of them beside it.
fn inspect_files(files: &[(&str, &str)]) -> (Answer, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (inspect(&directory.path().join(files[0].0)), directory)
}

/// The text, with paths as from inside `directory`.
fn without(directory: &TempDir, text: &str) -> String {
    let prefix = Path::new(directory.path()).join("");
    text.replace(prefix.to_str().unwrap(), "")
}
