//! `rlctl fetch`: downloads the lists with a `url` by curl. It needs no daemon.
//!
//! A file is replaced as a whole, and only by content that the daemon accepts. The daemon reads it
//! at the interval `every`.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use jiff::{Timestamp, fmt::rfc2822};
use ratelimit_core::{
    config::{self, ListConfig, public_url},
    list_file,
    lists::{BYTES_MAX, Coverage},
    quantity::duration,
};
use serde::Serialize;

use crate::{
    arguments::CONFIG, clock, exit_code::ExitCode, failure::Failure, output::printable_lines,
    phrase, report::Report,
};

/// `fetch [NAME...] [--config FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl fetch
  rlctl fetch spamhaus
  systemctl enable --now ratelimit-lists.timer

Lists with a `url` in the configuration are downloaded with curl to their `file`. A file is only \
replaced by a complete list that the daemon accepts; the daemon loads it at the interval `every`. \
The exit code is 1 if a download failed.")]
pub struct FetchArguments {
    /// The lists [default: all with a url]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The configuration that names them
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// The timeout for a download, in seconds.
const SECONDS_MAX: &str = "120";
/// Downloads are public, and the daemon's user reads them.
const MODE: u32 = 0o644;

/// The result of one list.
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
    /// The interval at which the daemon reads the file.
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

/// Downloads them one after the other. A failure does not affect the others.
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
            "no list `{name}` with a `url` in {}",
            arguments.config.display()
        );
        return Err(
            Failure::refused(error).hint(format!("set url = \"https://...\" in [list.{name}]"))
        );
    }
    let all: Vec<Fetched> = wanted
        .into_iter()
        .map(|(name, list, url)| fetched(name, list, url))
        .collect();
    let lines: Vec<String> = all.iter().map(line).collect();
    let mut report = Report::from_json(serde_json::json!(all), lines.join("\n"));
    if all.is_empty() {
        report = report.note("no list in the configuration has a `url`");
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
        url: public_url(url),
        file: list.file.clone(),
        state,
        entries,
        error,
        every: list.every.unwrap_or_default(),
    }
}

fn line(it: &Fetched) -> String {
    let what = match (&it.error, it.entries) {
        (Some(error), _) => format!("not fetched, keeping its file: {}", printable_lines(error)),
        (None, Some(entries)) => format!(
            "fetched {}; the daemon loads them within {}",
            phrase::count(entries, "entry", "entries"),
            duration(it.every)
        ),
        (None, None) => "unchanged".to_owned(),
    };
    format!("list {}: {what}", it.list)
}

/// Replaces the file of a list with the content of `url`, and returns the number of entries. `None`
/// if there is nothing newer.
fn fetch(list: &ListConfig, url: &str) -> anyhow::Result<Option<usize>> {
    let files = Files::of(list)?;
    let clear = || {
        [&files.new, &files.new_tag, &files.new_head]
            .into_iter()
            .try_for_each(|it| remove(it))
    };
    clear()?;
    let answer = fetch_to(&files, list, url);
    clear()?;
    answer
}

/// The files beside that of a list, hidden ones.
struct Files {
    /// The download.
    new: PathBuf,
    /// See [`list_file::tag_file`]. Without it, the list was not downloaded, and its time is
    /// meaningless.
    tag: PathBuf,
    /// `ETag` of the download.
    new_tag: PathBuf,
    /// Response headers of the download.
    new_head: PathBuf,
}

impl Files {
    fn of(list: &ListConfig) -> anyhow::Result<Self> {
        let tag = list_file::tag_file(&list.file).context("the file has no name")?;
        Ok(Self {
            new: tag.with_extension("new"),
            new_tag: tag.with_extension("etag.new"),
            new_head: tag.with_extension("head.new"),
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
        .map_err(|refused| anyhow::anyhow!("{}: {}", public_url(url), refused.error))?;
    if !list.allow_wide {
        let before = list_file::read(list, now).ok();
        let before = before.map(|before| Coverage::of_entries(&before.entries));
        let coverage = Coverage::of_entries(&reading.entries);
        let vetted = coverage.vet(&public_url(url), before);
        vetted.map_err(|wide| anyhow::anyhow!("{}: {}", wide.error, wide.hint))?;
    }
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

/// Downloads the list if it changed since the last download, and keeps the server's time stamp.
///
/// curl writes into a pipe because its own size limit ignores compression and chunked encoding. The
/// URL is passed by stdin because all users can read the arguments of a process.
fn download(files: &Files, list: &ListConfig, url: &str) -> anyhow::Result<()> {
    let mut curl = Command::new("curl");
    curl.args([
        "--fail",
        "--silent",
        "--show-error",
        "--location",
        "--compressed",
    ])
    .args(["--proto", "=http,https", "--max-time", SECONDS_MAX])
    .args(["--write-out", "%{stderr}\n%{http_code}"])
    .arg("--dump-header")
    .arg(&files.new_head)
    .arg("--etag-save")
    .arg(&files.new_tag);
    if url.starts_with("https:") {
        // Never falls back from HTTPS.
        curl.args(["--proto-redir", "=https"]);
    }
    if let Ok(tag) = fs::read(&files.tag)
        && list.file.exists()
    {
        curl.arg("--time-cond").arg(&list.file);
        if !tag.is_empty() {
            curl.arg("--etag-compare").arg(&files.tag);
        }
    }
    let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = pipes;
    let curl = curl
        .args(["--config", "-"])
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    let mut curl = match curl.spawn() {
        Ok(curl) => curl,
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("curl is not installed"),
        Err(error) => return Err(error).context("running curl"),
    };
    let quoted = url.replace('\\', "\\\\").replace('"', "\\\"");
    let stdin = curl
        .stdin
        .take()
        .map(|mut stdin| writeln!(stdin, "url = \"{quoted}\""));
    stdin.transpose().context("passing the URL to curl")?;
    let shown = public_url(url);
    let written = write(&mut curl, &files.new);
    let too_much = matches!(written, Ok(bytes) if bytes > BYTES_MAX as u64);
    if too_much || written.is_err() {
        // It may have ended already.
        let _ = curl.kill();
    }
    let output = curl.wait_with_output().context("running curl")?;
    written.with_context(|| format!("writing {}", files.new.display()))?;
    ensure!(
        !too_much,
        "{shown} exceeds {}",
        phrase::size(BYTES_MAX as u64)
    );
    let said = String::from_utf8_lossy(&output.stderr);
    let (said, code) = said.trim_end().rsplit_once('\n').unwrap_or((&said, ""));
    let said = said.replace(url, &shown);
    ensure!(output.status.success(), "{shown}: {}", said.trim());
    if code == "304" {
        return remove(&files.new);
    }
    let file = fs::File::options().write(true).open(&files.new)?;
    let modified = fs::read_to_string(&files.new_head).ok();
    if let Some(modified) = modified.as_deref().and_then(last_modified) {
        file.set_modified(modified.into())?;
    }
    Ok(())
}

/// Writes the output of curl, up to one byte more than a list may have, and returns its length.
fn write(curl: &mut Child, file: &Path) -> io::Result<u64> {
    let Some(stdout) = curl.stdout.take() else {
        return Ok(0);
    };
    let mut file = fs::File::create(file)?;
    io::copy(&mut stdout.take(BYTES_MAX as u64 + 1), &mut file)
}

/// The time that a server says, in the last of the answers.
fn last_modified(heads: &str) -> Option<Timestamp> {
    let last = heads.rsplit("HTTP/").next()?;
    let field = last.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("last-modified").then_some(value)
    })?;
    Some(rfc2822::parse(field.trim()).ok()?.timestamp())
}

fn remove(file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("writing {}", file.display()))
        }
        _ => Ok(()),
    }
}
