//! `rlctl config check` checks a file without a daemon; `rlctl config show` prints the settings in
//! force.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use ratelimit_core::{
    api::Setting,
    config::{self, Config},
};
use serde_json::json;

use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::{printable, printable_lines},
    phrase,
    replace_file::replace,
    report::Report,
    table::Table,
};

/// Verbs for configurations.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Check a configuration file and show its errors
    ///
    /// It only reads files, so the result is the same on every host. Problems that depend on the
    /// host are shown by `rlctl doctor --config FILE`, `rlctl reload --dry-run` and the log:
    /// destinations that are not routed here, VLANs on interfaces without Ethernet, and tunnel
    /// interfaces that `tunnels` also looks into.
    #[command(after_help = "\
Examples:
  rlctl config check /etc/ratelimit/config.toml
  rlctl config check --upgrade /etc/ratelimit/config.toml")]
    Check {
        /// Rename keys that have a new name, in the file and in conf.d beside it
        ///
        /// Comments and layout stay. Files with errors are not changed.
        #[arg(long)]
        upgrade: bool,
        /// The file
        file: PathBuf,
    },
    /// Show all settings in force
    #[command(after_help = "\
Examples:
  rlctl config show
  rlctl config show --with-origin
  rlctl config show --with-origin --json | jq '.[] | select(.origin == \"file\")'

Without --with-origin the output is a configuration that `rlctl config check` accepts; with --json \
it is the same as a JSON object. Runtime limits replace those of files, or are comments if no file \
has any. Secrets are not shown.")]
    Show {
        /// Show the file and line of each setting, or that it is a default
        #[arg(long, alias = "origin")]
        with_origin: bool,
    },
}

/// Reads `file` as the daemon would.
pub fn check(file: &Path) -> Report {
    let (config, mut warnings) = match config::inspect(file) {
        Ok(inspected) => inspected,
        Err(error) => {
            let json = json!({ "valid": false, "problems": error.diagnostics() });
            let mut report = Report::from_json(json, "");
            report.failure = Some(wrong(file, &error.to_string()));
            return report;
        }
    };
    warnings.extend(config::exposed(&config));
    let json = json!({
        "valid": true,
        "files": config.files,
        "interfaces": config.interfaces.len(),
        "policies": config.policies.len() + 1,
        "allows": config.allow.len(),
        "observe": config.observe,
        "warnings": warnings,
    });
    let notes = warnings.iter().map(ToString::to_string);
    Report::from_json(json, sentence(file, &config)).notes(notes)
}

/// Gives the keys of `file`, and of `conf.d` beside it, their present names. A configuration with
/// errors is left as it is.
pub fn upgrade(file: &Path) -> Result<Report, Failure> {
    let files = config::read(file).and_then(|files| config::parse(&files).map(|_| files));
    // The report of a check has every error.
    let Ok(files) = files else {
        return Ok(check(file));
    };
    let mut renames = Vec::new();
    for file in files {
        let (text, renamed) = config::upgrade(&file.text);
        if renamed.is_empty() {
            continue;
        }
        let path = file.path.display();
        let written = fs::canonicalize(&file.path).and_then(|to| replace(&to, &text));
        let before = written.map_err(|error| Failure::refused(format!("{path}: {error}")))?;
        for (old, new) in renamed {
            let rename = json!({ "file": file.path, "before": before, "old": old, "new": new });
            renames.push((rename, format!("{path}: renamed `{old}` to `{new}`")));
        }
    }
    let mut report = check(file);
    let (json, lines): (Vec<_>, Vec<_>) = renames.into_iter().unzip();
    if let Some(report) = &mut report.json {
        report["renamed"] = json.into();
    }
    Ok(report.notes(lines))
}

/// Shows the settings in force: as a configuration that can be loaded, or each with its origin.
pub fn show(origin: bool, client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Vec<Setting>> = client.get("/v1/config")?;
    if !origin {
        let text = config::toml(&answer.value);
        let document: toml::Table = toml::from_str(&text)
            .map_err(|error| Failure::refused(format!("the settings are not TOML: {error}")))?;
        let text = printable_lines(text.trim_end());
        return Ok(Report::from_json(json!(document), text));
    }
    let setting = |it: &Setting| format!("{} = {}", printable(&it.key), printable(&it.value));
    let mut table = Table::new("SET BY | SETTING");
    for it in &answer.value {
        table.row([printable(&it.origin.to_string()), setting(it)]);
    }
    Ok(Report::new(answer, table.to_string()))
}

/// The error contains the position, so only one word precedes it.
pub fn wrong(file: &Path, error: &str) -> Failure {
    let error = error.strip_prefix("error: ").unwrap_or(error);
    // The command line names nothing that could be wrong.
    if file.exists() {
        Failure::refused(error)
    } else {
        Failure::usage(error)
    }
}

fn sentence(file: &Path, config: &Config) -> String {
    let dry_run = phrase::when(config.observe, ", dry run");
    format!(
        "{}: valid ({}, {}, {}{dry_run})",
        file.display(),
        phrase::count(config.interfaces.len(), "interface", "interfaces"),
        phrase::count(config.policies.len() + 1, "policy", "policies"),
        phrase::count(config.allow.len(), "allow", "allows"),
    )
}
