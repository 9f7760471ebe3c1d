//! `rlctl list lists`: which lists there are, where they come from, and how it goes with their
//! files.

use jiff::Zoned;
use ratelimit_core::{
    api::{Changed, ListTarget, ListView},
    quantity,
};

use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::{BAD, WARNING, printable, printable_lines, styled},
    phrase,
    report::Report,
    table::Table,
};

/// Shows all lists.
pub fn show(client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let answer: Answer<Vec<ListView>> = client.get("/v1/lists")?;
    if answer.value.is_empty() {
        return Ok(Report::new(answer, "").note("no lists"));
    }
    let mut table =
        Table::new("LIST | ACTION | >ENTRIES | >PACKETS | >BYTES | CHANGED | READ | EVERY | FILE");
    for list in &answer.value {
        table.row(row(list, now));
    }
    let notes: Vec<String> = answer.value.iter().flat_map(notes).collect();
    Ok(Report::new(answer, table.to_string()).notes(notes))
}

fn row(list: &ListView, now: &Zoned) -> [String; 9] {
    let moment = |time| phrase::moment(time, now);
    let imported = list.file.is_none();
    let every = list
        .every_seconds
        .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    let read = match list.read {
        Some(time) => format!("{} ago", phrase::span(time, now.timestamp())),
        None if imported => "-".to_owned(),
        None => "never".to_owned(),
    };
    [
        list.name.to_string(),
        list.action.label().to_owned(),
        list.entries.to_string(),
        phrase::counted(list.counter.packets),
        phrase::counted(list.counter.bytes),
        list.since.map_or_else(|| "never".to_owned(), moment),
        read,
        every.map_or_else(|| "-".to_owned(), quantity::duration),
        list.file.clone().unwrap_or_else(|| "imported".to_owned()),
    ]
}

/// Errors in the file of a list, and entries that are cut short.
fn notes(list: &ListView) -> impl Iterator<Item = String> {
    let exempt = phrase::exempt(&list.exempt);
    let exempt = exempt
        .into_iter()
        .map(|exempt| format!("list {}: {exempt}", printable(&list.name)));
    trouble(list).into_iter().chain(exempt).chain(unsaid(list))
}

/// Returns the error in the file of a list.
pub fn trouble(list: &ListView) -> Option<String> {
    let error = list.error.as_deref()?;
    let stays = styled(BAD, "cannot load its file, keeping the previous entries");
    let times = phrase::count(list.errors, "time", "times");
    Some(format!(
        "list {}: {stays} ({times}):\n{}",
        printable(&list.name),
        printable_lines(error)
    ))
}

/// Returns the configuration needed for connected networks.
pub fn unsaid(list: &ListView) -> Option<String> {
    if list.connected_unsaid == 0 {
        return None;
    }
    let number = phrase::count(list.connected_unsaid, "entry does", "entries do");
    let (name, warning) = (printable(&list.name), styled(WARNING, "connected networks"));
    Some(format!(
        "list {name}: {number} not apply to {warning}: set connected = \"exempt\" or \"include\" \
         in [list.{name}]"
    ))
}

/// Removes an imported list.
pub fn remove(name: &str, client: &Client) -> Result<Report, Failure> {
    let target = ListTarget {
        name: name.to_owned(),
    };
    let answer: Answer<Changed> = client.delete("/v1/lists", &target)?;
    let entries = phrase::count(answer.value.removed, "entry", "entries");
    let text = format!("removed list {} with {entries}", printable(name));
    Ok(Report::new(answer, text))
}
