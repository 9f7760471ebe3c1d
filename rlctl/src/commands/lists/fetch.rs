//! `rlctl lists fetch`: downloads the lists whose `url` the configuration names, by curl. It needs no daemon.
//!
//! A file is replaced whole, and only by what the daemon would take; the daemon reads it as often as `every` says.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use ratelimit_core::{
    config::{self, ListConfig},
    list_file,
    lists::BYTES_MAX,
    quantity::duration,
};
use serde::Serialize;

use crate::{
    clock, exit_code::ExitCode, failure::Failure, list_arguments::FetchArguments,
    output::printable_lines, phrase, report::Report,
};

/// How long a download may take, in seconds.
const SECONDS_MAX: &str = "120";
/// Whoever may read the list may read what everybody can download.
const MODE: u32 = 0o644;

/// What became of one list.
#[derive(Serialize)]
struct Fetched {
    list: String,
    url: String,
    file: PathBuf,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// How often the daemon reads the file.
    #[serde(skip)]
    every: Duration,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Replaced,
    Unchanged,
    Failed,
}

/// Downloads them, one after the other. One that fails keeps none of the others.
pub fn run(arguments: &FetchArguments) -> Result<Report, Failure> {
    let config =
        config::load(&arguments.config).map_err(|error| Failure::refused(error.to_string()))?;
    let is_wanted = |name: &String| arguments.names.is_empty() || arguments.names.contains(name);
    let with_url = config
        .lists
        .iter()
        .filter_map(|(name, list)| Some((name, list, list.url.as_deref()?)));
    let wanted: Vec<_> = with_url.filter(|(name, ..)| is_wanted(name)).collect();
    let is_known = |name: &&String| !wanted.iter().any(|(known, ..)| known == name);
    if let Some(name) = arguments.names.iter().find(is_known) {
        let error = format!(
            "no list `{name}` with a url in {}",
            arguments.config.display()
        );
        return Err(
            Failure::refused(error).hint(format!("write url = \"https://...\" into [list.{name}]"))
        );
    }
    let all: Vec<Fetched> = wanted
        .into_iter()
        .map(|(name, list, url)| fetched(name, list, url))
        .collect();
    let lines: Vec<String> = all.iter().map(line).collect();
    let mut report = Report::from_json(serde_json::json!(all), lines.join("\n"));
    if all.is_empty() {
        report = report.note("no list of the configuration has a url");
    }
    if all.iter().any(|it| matches!(it.state, State::Failed)) {
        report.code = ExitCode::Refused;
    }
    Ok(report)
}

fn fetched(name: &str, list: &ListConfig, url: &str) -> Fetched {
    let (state, entries, error) = match fetch(list, url) {
        Ok(Some(entries)) => (State::Replaced, Some(entries), None),
        Ok(None) => (State::Unchanged, None, None),
        Err(error) => (State::Failed, None, Some(format!("{error:#}"))),
    };
    Fetched {
        list: name.to_owned(),
        url: url.to_owned(),
        file: list.file.clone(),
        state,
        entries,
        error,
        every: list.every.unwrap_or_default(),
    }
}

fn line(it: &Fetched) -> String {
    let what = match (&it.error, it.entries) {
        (Some(error), _) => format!(
            "not fetched, and its file stays: {}",
            printable_lines(error)
        ),
        (None, Some(entries)) => format!(
            "fetched, {}; the daemon reads them within {}",
            phrase::count(entries, "entry", "entries"),
            duration(it.every)
        ),
        (None, None) => "unchanged".to_owned(),
    };
    format!("list {}: {what}", it.list)
}

/// Replaces the file of a list by what `url` has, and answers how many entries that are; `None` where it has nothing newer.
fn fetch(list: &ListConfig, url: &str) -> anyhow::Result<Option<usize>> {
    let files = Files::of(list)?;
    let clear = || remove(&files.new).and_then(|()| remove(&files.new_tag));
    clear()?;
    let answer = fetch_to(&files, list, url);
    clear()?;
    answer
}

/// The files beside that of a list, hidden ones.
struct Files {
    /// What is downloaded.
    new: PathBuf,
    /// As [`list_file::tag_file`] has it. Without it the list was not downloaded, and its time says nothing.
    tag: PathBuf,
    /// That of what is downloaded.
    new_tag: PathBuf,
}

impl Files {
    fn of(list: &ListConfig) -> anyhow::Result<Self> {
        let tag = list_file::tag_file(&list.file).context("the file has no name")?;
        Ok(Self {
            new: tag.with_extension("new"),
            new_tag: tag.with_extension("etag.new"),
            tag,
        })
    }
}

fn fetch_to(files: &Files, list: &ListConfig, url: &str) -> anyhow::Result<Option<usize>> {
    download(files, list, url)?;
    let new = &files.new;
    if !new.exists() {
        let tag = fs::File::open(&files.tag)?;
        tag.set_modified(clock::wall().into())
            .with_context(|| format!("writing {}", files.tag.display()))?;
        return Ok(None);
    }
    let now = clock::wall();
    let candidate = ListConfig {
        file: new.to_owned(),
        ..list.clone()
    };
    let reading = list_file::read(&candidate, now)
        .map_err(|refused| anyhow::anyhow!("{url}: {}", refused.error))?;
    let file = fs::File::open(new)?;
    file.set_permissions(fs::Permissions::from_mode(MODE))?;
    file.sync_all()?;
    let writing = || format!("writing {}", list.file.display());
    // Killed in between, the next call downloads the whole list.
    remove(&files.tag)?;
    fs::rename(new, &list.file).with_context(writing)?;
    if files.new_tag.exists() {
        fs::rename(&files.new_tag, &files.tag).with_context(writing)?;
    }
    Ok(Some(reading.entries.len()))
}

/// Has curl write what is newer than what it wrote last, with the time that the server says.
fn download(files: &Files, list: &ListConfig, url: &str) -> anyhow::Result<()> {
    let mut curl = Command::new("curl");
    curl.args([
        "--fail",
        "--silent",
        "--show-error",
        "--location",
        "--compressed",
    ])
    .args([
        "--proto",
        "=http,https",
        "--remote-time",
        "--max-time",
        SECONDS_MAX,
    ])
    .args(["--max-filesize", &BYTES_MAX.to_string()])
    .arg("--output")
    .arg(&files.new)
    .arg("--etag-save")
    .arg(&files.new_tag);
    if let Ok(tag) = fs::read(&files.tag)
        && list.file.exists()
    {
        curl.arg("--time-cond").arg(&list.file);
        if !tag.is_empty() {
            curl.arg("--etag-compare").arg(&files.tag);
        }
    }
    let output = match curl.args(["--url", url]).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("curl is not installed"),
        Err(error) => return Err(error).context("running curl"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{url}: {}", said.trim());
    Ok(())
}

fn remove(file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("writing {}", file.display()))
        }
        _ => Ok(()),
    }
}
