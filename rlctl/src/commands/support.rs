//! `rlctl doctor --archive`: creates one archive for a bug report, without secrets.
//!
//! Missing parts are omitted and reported. It changes nothing.

mod archive;
mod configuration;
mod parts;
mod redactor;

use std::path::{Path, PathBuf};

use jiff::{Zoned, tz::TimeZone};
use serde::Serialize;
use serde_json::json;

use self::{parts::Parts, redactor::Redactor};
use crate::{
    client::Client, commands::doctor::DoctorArguments, failure::Failure, phrase, report::Report,
};

/// An omitted part, and why.
#[derive(Serialize)]
struct LeftOut {
    what: &'static str,
    why: String,
}

/// Collects, redacts and writes.
pub fn run(
    file: Option<&Path>,
    arguments: &DoctorArguments,
    client: &Client,
    now: &Zoned,
) -> Result<Report, Failure> {
    let named = || {
        let time = now.with_time_zone(TimeZone::UTC);
        let name = time.strftime("ratelimit-support-%Y%m%dT%H%M%SZ.tar.gz");
        PathBuf::from(name.to_string())
    };
    let path = file.map_or_else(named, Path::to_path_buf);
    let file = archive::create(&path)?;
    let mut redactor = Redactor::new(!arguments.with_addresses);
    let Parts { files, left_out } = parts::collect(arguments, client, &mut redactor);
    let mut redacted: Vec<(&str, String)> = files
        .into_iter()
        .map(|(name, text)| (name, redactor.text(&text)))
        .collect();
    let left_out: Vec<LeftOut> = left_out
        .into_iter()
        .map(|it| LeftOut {
            why: redactor.text(&it.why),
            ..it
        })
        .collect();
    let mut remarks: Vec<String> = left_out
        .iter()
        .map(|it| format!("skipped: {}: {}", it.what, it.why))
        .collect();
    remarks.push(redactor.summary());
    let readme = readme(&redacted, &remarks);
    redacted.insert(0, ("README.txt", readme));
    if let Err(error) = archive::write(file, &redacted, now) {
        // An archive that is cut is of no use.
        let _ = std::fs::remove_file(&path);
        return Err(Failure::refused(format!(
            "cannot write {}: {error}",
            path.display()
        )));
    }
    let names: Vec<&str> = redacted.iter().map(|(name, _)| *name).collect();
    let json = json!({
        "file": path,
        "contains": names,
        "left_out": left_out,
        "addresses_replaced": redactor.addresses_replaced(),
    });
    let mut lines = vec![format!("{} has {}", path.display(), phrase::and(&names))];
    lines.extend(remarks);
    Ok(Report::from_json(json, lines.join("\n")))
}

/// Formats the readme of the archive.
fn readme(files: &[(&str, String)], remarks: &[String]) -> String {
    let mut lines = vec![
        "What `rlctl doctor --archive` collected of ratelimit.".to_owned(),
        String::new(),
    ];
    lines.extend(
        files
            .iter()
            .map(|(name, text)| format!("{name}: {}", phrase::size(text.len() as u64))),
    );
    lines.push(String::new());
    lines.extend_from_slice(remarks);
    lines.join("\n") + "\n"
}
