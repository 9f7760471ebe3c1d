//! `rlctl config check`: whether a file is a configuration. It needs no daemon.

use std::path::Path;

use ratelimit_core::config::{self, Config};
use serde_json::json;

use crate::{failure::Failure, phrase, report::Report};

/// Reads `file` as the daemon would.
pub fn check(file: &Path) -> Report {
    let (config, warnings) = match config::inspect(file) {
        Ok(inspected) => inspected,
        Err(error) => {
            let json = json!({ "valid": false, "problems": error.diagnostics() });
            let mut report = Report::from_json(json, "");
            report.failure = Some(wrong(&error.to_string()));
            return report;
        }
    };
    let json = json!({
        "valid": true,
        "files": config.files,
        "interfaces": config.interfaces.len(),
        "policies": config.policies.len() + 1,
        "allows": config.allow.len(),
        "observe": config.observe,
        "warnings": warnings,
    });
    let report = Report::from_json(json, sentence(file, &config));
    let notes = warnings.iter().map(ToString::to_string);
    notes.fold(report, Report::note)
}

/// The error says where it is, so nothing is put before it but the word.
pub fn wrong(error: &str) -> Failure {
    Failure::refused(error.strip_prefix("error: ").unwrap_or(error))
}

fn sentence(file: &Path, config: &Config) -> String {
    let dry_run = if config.observe {
        ", all as a dry run"
    } else {
        ""
    };
    format!(
        "{} is a configuration: {}, {}, {}{dry_run}",
        file.display(),
        phrase::count(config.interfaces.len(), "interface", "interfaces"),
        phrase::count(config.policies.len() + 1, "policy", "policies"),
        phrase::count(config.allow.len(), "allow", "allows"),
    )
}
