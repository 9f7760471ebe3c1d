//! `rlctl import`: sends a list of any format to the daemon, and reports the differences.

use std::{
    io::Read,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use indicatif::ProgressBar;
use ratelimit_core::{
    api::{Code, ImportInto, ImportRequest, Imported, ImportedInto, Progress},
    lists::BYTES_MAX,
};

use crate::{
    client::{Answer, Client},
    exit_code::ExitCode,
    failure::Failure,
    input::{self, Input},
    list_arguments::ImportArguments,
    output::{printable, printable_lines},
    phrase,
    report::Report,
};

/// The interval between requests for the progress.
const POLL: Duration = Duration::from_millis(100);

/// Imports a list.
pub fn run(file: &Path, arguments: &ImportArguments, client: &Client) -> Result<Report, Failure> {
    let mut file = Input::open(file).map_err(|failure| Failure {
        code: ExitCode::Usage,
        ..failure
    })?;
    let request = request(arguments, file.name());
    let body = read(&mut file)?;
    drop(file);
    let size = phrase::size(body.len() as u64);
    let waiting = input::waiting(&format!("importing {size}"));
    let answer: Result<Answer<Imported>, Failure> = watched(&waiting, client, || {
        client.upload("/v1/import", &request, body)
    });
    waiting.finish_and_clear();
    let answer = answer.map_err(|failure| match failure.refused.code {
        // Like a list in `rlctl ban @FILE`.
        Some(Code::BadList) => Failure {
            code: ExitCode::Usage,
            ..failure
        },
        _ => failure,
    })?;
    let text = sentences(&answer.value);
    let notes = notes(&answer.value);
    Ok(Report::new(answer, text).notes(notes))
}

/// Runs `work`, and shows the progress of the daemon on a terminal.
fn watched<T>(waiting: &ProgressBar, daemon: &Client, work: impl FnOnce() -> T) -> T {
    if waiting.is_hidden() {
        return work();
    }
    let (done, is_done) = mpsc::channel::<()>();
    let daemon = daemon.another();
    thread::scope(|scope| {
        scope.spawn(move || {
            while is_done.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                // Whatever fails here is reported by the answer itself.
                if let Ok(answer) = daemon.get::<Progress>("/v1/progress") {
                    input::show(waiting, answer.value);
                }
            }
        });
        let answer = work();
        drop(done);
        answer
    })
}

fn request(arguments: &ImportArguments, name: &str) -> ImportRequest {
    let into = match arguments {
        ImportArguments { list: Some(_), .. } => ImportInto::List,
        ImportArguments { ban: true, .. } => ImportInto::Bans,
        ImportArguments { allow: true, .. } => ImportInto::Allows,
        _ => ImportInto::Origins,
    };
    ImportRequest {
        into,
        list: arguments.list.clone(),
        action: arguments.action,
        seconds: arguments.lifetime.seconds(),
        reason: arguments.reason.clone(),
        name: Some(name.to_owned()),
        dry_run: arguments.dry_run,
        skip_bad: arguments.skip_bad,
        force: arguments.force,
        allow_empty: arguments.allow_empty,
        allow_wide: arguments.allow_wide,
        min_count: arguments.min_count,
        json_path: arguments.json_path.clone(),
        connected: arguments.connected(),
    }
}

fn read(file: &mut Input) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let read = file.take(BYTES_MAX as u64 + 1).read_to_end(&mut body);
    if let Err(error) = read {
        let name = file.name();
        return Err(Failure::refused(format!("cannot read {name}: {error}")));
    }
    if body.len() > BYTES_MAX {
        let name = file.name();
        let most = phrase::size(BYTES_MAX as u64);
        return Err(Failure::refused(format!("{name} exceeds {most}"))
            .hint("split it and import the parts as separate lists"));
    }
    Ok(body)
}

/// `list:spamhaus: +1402 -3 =12`
fn sentences(imported: &Imported) -> String {
    let lines = imported.targets.iter().map(|target| {
        let dry_run = phrase::when(imported.dry_run, "dry run: ");
        format!("{dry_run}{}", difference(target))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn difference(target: &ImportedInto) -> String {
    let ImportedInto {
        into,
        added,
        removed,
        updated,
        kept,
        longer: _,
    } = target;
    let changed = match updated {
        0 => String::new(),
        updated => format!(" ~{updated}"),
    };
    format!("{}: +{added} -{removed}{changed} ={kept}", printable(into))
}

fn notes(imported: &Imported) -> Vec<String> {
    let (format, coverage) = (printable(&imported.format), imported.coverage);
    let mut notes = vec![format!("format {format}; covers {coverage}")];
    notes.extend(imported.notes.iter().map(|note| printable(note)));
    if imported.duplicates > 0 {
        notes.push(phrase::count(
            imported.duplicates,
            "duplicate entry merged",
            "duplicate entries merged",
        ));
    }
    if imported.covered > 0 {
        notes.push(phrase::count(
            imported.covered,
            "entry inside a wider one merged",
            "entries inside wider ones merged",
        ));
    }
    let longer: usize = imported.targets.iter().map(|target| target.longer).sum();
    if longer > 0 {
        notes.push(phrase::count(
            longer,
            "existing ban lasts longer and was kept",
            "existing bans last longer and were kept",
        ));
    }
    let skipped = imported.skipped.iter();
    notes.extend(skipped.map(|(why, count)| {
        let entries = phrase::count(*count, "entry", "entries");
        format!("{entries} skipped: {}", printable(why))
    }));
    if imported.allowed > 0 {
        let entries = phrase::count(
            imported.allowed,
            "entry has no effect: it is",
            "entries have no effect: they are",
        );
        notes.push(format!("{entries} on the allow list"));
    }
    notes.extend(phrase::exempt(&imported.exempt));
    if let Some(lines) = &imported.bad_lines {
        let count = phrase::count(imported.bad, "bad line", "bad lines");
        notes.push(format!("{count} skipped:\n{}", printable_lines(lines)));
    }
    notes
}
