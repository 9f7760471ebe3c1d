//! The parts of the archive as texts, and why one is missing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use ratelimit_core::{api::Status, config};
use serde_json::Value;

use super::{LeftOut, configuration, redactor::Redactor};
use crate::{
    client::{Answer, Client},
    commands::{doctor, doctor::DoctorArguments},
    failure::Failure,
};

/// Requests to the daemon, and their files in the archive.
const ANSWERS: [(&str, &str); 5] = [
    ("limits.json", "/v1/limits"),
    ("lists.json", "/v1/lists"),
    ("counters.json", "/v1/stats"),
    ("cluster.json", "/v1/cluster"),
    ("protected.json", "/v1/protected"),
];
/// The most lines of the journal.
const LOG_LINES: &str = "20000";

/// The collected files.
#[derive(Default)]
pub struct Parts {
    /// Names and texts.
    pub files: Vec<(&'static str, String)>,
    /// Missing parts.
    pub left_out: Vec<LeftOut>,
}

impl Parts {
    fn add(&mut self, name: &'static str, text: Result<String, String>) {
        match text {
            Ok(text) => self.files.push((name, text)),
            Err(why) => self.left_out.push(LeftOut { what: name, why }),
        }
    }
}

/// Collects everything available. Only the configuration is redacted already; the redactor learns
/// from it.
pub fn collect(arguments: &DoctorArguments, client: &Client, redactor: &mut Redactor) -> Parts {
    let mut parts = Parts::default();
    let status: Result<Answer<Status>, Failure> = client.get("/v1/status");
    parts.add("version.txt", Ok(versions(status.as_ref().ok())));
    let files: Vec<PathBuf> = match &status {
        Ok(answer) if !answer.value.config_files.is_empty() => answer
            .value
            .config_files
            .iter()
            .map(PathBuf::from)
            .collect(),
        _ => vec![arguments.config.clone()],
    };
    parts.add("config.toml", configuration_of(&files, redactor));
    if let Ok(config) = config::load(&files[0]) {
        configuration::learn_files(&config, redactor);
    }
    let findings = doctor::examine(None, &files[0], client);
    parts.add(
        "doctor.json",
        Ok(pretty(&serde_json::to_value(findings).unwrap_or_default())),
    );
    let status = status.map(|answer| pretty(&answer.json));
    parts.add("status.json", status.map_err(|it| it.refused.error));
    for (name, path) in ANSWERS {
        let answer: Result<Answer<Value>, Failure> = client.get(path);
        let text = answer.map(|answer| pretty(&answer.json));
        parts.add(name, text.map_err(|it| it.refused.error));
    }
    for (name, path) in [("events.jsonl", "/v1/events"), ("metrics.txt", "/metrics")] {
        parts.add(name, client.text(path).map_err(|it| it.refused.error));
    }
    parts.add("log.txt", log(arguments.log.as_deref()));
    parts
}

fn versions(status: Option<&Answer<Status>>) -> String {
    let kernel = rustix::system::uname();
    let daemon = status.map_or("no answer", |answer| &answer.value.version);
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    format!(
        "rlctl {}\nratelimitd {daemon}\n{} {} {} {}\n\n{system}",
        env!("CARGO_PKG_VERSION"),
        kernel.sysname().to_string_lossy(),
        kernel.release().to_string_lossy(),
        kernel.version().to_string_lossy(),
        kernel.machine().to_string_lossy(),
    )
}

/// The files one behind the other, each with its path.
fn configuration_of(files: &[PathBuf], redactor: &mut Redactor) -> Result<String, String> {
    let mut whole = String::new();
    for path in files {
        let named = |error: String| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let text = configuration::redacted(&text, redactor).map_err(named)?;
        whole.extend([
            &format!("# {}, without comments\n", path.display()),
            &text,
            "\n",
        ]);
    }
    Ok(whole)
}

/// The file that is named, or the last hour of the journal without the name of this host.
fn log(file: Option<&Path>) -> Result<String, String> {
    if let Some(file) = file {
        let text = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    let output = Command::new("journalctl")
        .args([
            "--unit",
            "ratelimitd",
            "--since",
            "-1h",
            "--lines",
            LOG_LINES,
        ])
        .args([
            "--no-hostname",
            "--no-pager",
            "--quiet",
            "--output",
            "short-iso",
        ])
        .output()
        .map_err(|error| format!("journalctl: {error}: give the log with --log FILE"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match (output.status.success(), text.trim()) {
        (true, "") => Err(
            "the journal has no lines from the last hour: give the log with --log FILE".to_owned(),
        ),
        (true, _) => Ok(text),
        (false, _) => Err(format!("journalctl: {complaint}")),
    }
}

fn pretty(json: &Value) -> String {
    serde_json::to_string_pretty(json).unwrap_or_default() + "\n"
}
