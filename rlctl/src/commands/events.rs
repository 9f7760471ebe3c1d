//! `rlctl events`: what happened lately, and with `--follow` what happens.

mod cursor;
mod hook;
pub mod text;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use jiff::{SignedDuration, Zoned};
use ratelimit_core::{
    api::{Cursor, Event, EventKind, EventRequest, SeenDrops},
    quantity,
};
use serde_json::Value;

use self::cursor::CursorFile;
use crate::{
    client::{self, Client},
    clock,
    exit_code::ExitCode,
    failure::Failure,
    output::{Output, printable},
    prefixes,
    report::Report,
    stream::Ended,
};

/// `events [--follow] [--last N] [--kind KIND] [--within PREFIX] [--since TIME] [--run PROGRAM]
/// [--cursor-file FILE]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl events --kind bans
  rlctl events --since 1h --kind changes
  rlctl events --follow --kind attacks --run /usr/local/bin/notify
  rlctl events --follow --within 203.0.113.0/24
  rlctl events --follow --json | jq -r .event

The daemon keeps the last 1000 changes by operators, the last 1000 caused by traffic, and, until a \
restart, the last 1000 sampled drops. At most 100 drops per second and CPU are sampled; `rlctl \
stats` counts all of them. Consecutive similar drops are shown as one line with their count; with \
--follow, --cursor-file and --json every event is a line.

If a --run program fails, the failure is reported on stderr and the next event follows. With \
--cursor-file a call continues where the last one ended; the first call starts with new events. \
--follow exits with 0 on Ctrl-C and with 4 when the daemon stops.")]
pub struct EventsArguments {
    /// Continue with new events
    #[arg(long, short)]
    pub follow: bool,
    /// Number of recent events [default: all, 10 with --follow]
    #[arg(long, alias = "count", value_name = "N")]
    pub last: Option<u32>,
    /// Only events of one kind
    #[arg(long, alias = "only", value_name = "KIND")]
    pub kind: Option<EventKind>,
    /// Only events about an address or a prefix
    #[arg(long, alias = "source", value_name = "PREFIX")]
    pub within: Option<String>,
    /// Only events of the last 10m, 1h30m, ...
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub since: Option<Duration>,
    /// Run a program for each event in turn, with its line of JSON on stdin
    #[arg(long, value_name = "PROGRAM")]
    pub run: Option<PathBuf>,
    /// Continue after the cursor in this file, and save the last cursor there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["last", "since"])]
    pub cursor_file: Option<PathBuf>,
}

/// The default number of stored events shown first.
const BEFORE_FOLLOWING: u32 = 10;

/// Shows events as they come.
pub fn run(
    arguments: &EventsArguments,
    client: &Client,
    output: &Output,
    now: &Zoned,
) -> Result<Report, Failure> {
    let cursor = arguments.cursor_file.as_deref().map(CursorFile::new);
    let after = cursor.as_ref().map(|cursor| cursor.read(client));
    let path = path(arguments, after.transpose()?, now)?;
    let mut lines = Lines::default();
    // With `--follow` or a cursor, each event is printed at once.
    let folds = output.is_for_people() && !arguments.follow && cursor.is_none();
    let mut alike = folds.then(Vec::new);
    let ended = client.follow(&path, |piece| {
        lines.push(piece);
        while let Some(line) = lines.next() {
            if !show(&line, alike.as_mut(), output)? {
                return Ok(false);
            }
            if let Some(program) = &arguments.run {
                hook::run(program, &line);
            }
            if let Some(cursor) = &cursor {
                cursor.write_that_of(&line)?;
            }
        }
        Ok(true)
    })?;
    if let Some(alike) = &mut alike {
        show_alike(alike, output)?;
    }
    if arguments.follow && ended == Ended::Daemon {
        return Err(Failure::new(ExitCode::NoDaemon, "the daemon stopped"));
    }
    Ok(Report::printed())
}

fn path(
    arguments: &EventsArguments,
    after: Option<Cursor>,
    now: &Zoned,
) -> Result<String, Failure> {
    let first = (arguments.follow && after.is_none()).then_some(BEFORE_FOLLOWING);
    let source = arguments.within.as_deref().map(prefixes::read_one);
    let request = EventRequest {
        follow: arguments.follow,
        count: arguments.last.or(first).map(|count| count as usize),
        only: arguments.kind,
        source: source.transpose()?,
        since: arguments.since.and_then(|ago| {
            let ago = SignedDuration::try_from(ago).ok()?;
            now.timestamp().checked_sub(ago).ok()
        }),
        after,
    };
    Ok(client::with_query("/v1/events", &request))
}

/// Prints a line; returns `false` if stdout was closed.
fn show(line: &[u8], alike: Option<&mut Vec<SeenDrops>>, output: &Output) -> Result<bool, Failure> {
    let json: Value = serde_json::from_slice(line)
        .map_err(|error| Failure::refused(format!("unexpected event of the daemon: {error}")))?;
    if let Some(alike) = alike {
        let event = serde_json::from_value::<Event>(json.clone());
        if event.is_ok_and(|event| SeenDrops::add(alike, &event)) {
            return Ok(true);
        }
        if !show_alike(alike, output)? {
            return Ok(false);
        }
    }
    output.line(&json, || sentence(&json, &clock::local()))
}

/// Prints the drops since the last event of another kind, similar ones as one line; returns `false`
/// if stdout was closed.
fn show_alike(alike: &mut Vec<SeenDrops>, output: &Output) -> Result<bool, Failure> {
    let now = clock::local();
    for drops in alike.drain(..) {
        if !output.line(&Value::Null, || text::drops(&drops, &now))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An event for people; of one that only a newer daemon knows, as much as can be shown.
fn sentence(json: &Value, now: &Zoned) -> String {
    match serde_json::from_value::<Event>(json.clone()) {
        Ok(event) => text::line(&event, now),
        Err(_) => printable(&json.to_string()),
    }
}

/// Whole lines out of pieces.
#[derive(Default)]
pub struct Lines {
    pieces: Vec<u8>,
    /// The part of `pieces` that was returned.
    given: usize,
}

impl Lines {
    pub fn push(&mut self, piece: &[u8]) {
        self.pieces.drain(..self.given);
        self.given = 0;
        self.pieces.extend_from_slice(piece);
    }

    pub fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.pieces[self.given..];
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = rest[..end].to_vec();
        self.given += end + 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ratelimit_core::api::{Dropped, PacketRequest, What};

    use super::*;

    #[test]
    fn what_a_newer_daemon_tells_is_shown_as_it_comes() {
        let json: Value = serde_json::from_str(r#"{"event":"new"}"#).unwrap();
        assert_eq!(sentence(&json, &now()), r#"{"event":"new"}"#);
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let mut lines = Lines::default();
        lines.push(b"a");
        assert_eq!(lines.next(), None);
        lines.push(b"b\nc\n");
        assert_eq!(lines.next(), Some(b"ab".to_vec()));
        lines.push(b"d");
        assert_eq!(lines.next(), Some(b"c".to_vec()));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn drops_that_differ_by_their_source_port_alone_are_one_line() {
        let mut alike = Vec::new();
        for (second, last, port) in [(1, 7, 1024), (2, 8, 1024), (3, 7, 1025), (4, 7, 1026)] {
            assert!(SeenDrops::add(&mut alike, &drop(second, last, port)));
        }
        let expected = [
            "14:22:02 dropped 203.0.113.8 (to port 53 from port 1024) on eth0: limited",
            "14:22:04 dropped 203.0.113.7 (to port 53 from port 1026) on eth0: limited, 3 times \
             since 14:22:01",
        ];
        let lines = alike.iter().map(|seen| text::drops(seen, &now()));
        let plain = lines.map(|line| anstream::adapter::strip_str(&line).to_string());
        assert_eq!(plain.collect::<Vec<_>>(), expected);
        let other = Event {
            what: What::PassAllOff { by: None },
            ..drop(5, 7, 1)
        };
        assert!(!SeenDrops::add(&mut alike, &other));
    }

    fn drop(second: u8, last: u8, source_port: u16) -> Event {
        let source: IpAddr = [203, 0, 113, last].into();
        Event {
            number: second.into(),
            cursor: None,
            at: format!("2026-03-02T14:22:0{second}Z").parse().unwrap(),
            what: What::Drop(Dropped {
                source,
                from: None,
                packet: PacketRequest {
                    destination_port: Some(53),
                    source_port: Some(source_port),
                    ..PacketRequest::default()
                },
                reason: "limited".to_owned(),
                observed: false,
                policy: None,
                limit: None,
                interface: "eth0".to_owned(),
            }),
        }
    }

    fn now() -> Zoned {
        "2026-03-02T14:50:00Z[UTC]".parse().unwrap()
    }
}
