//! `rlctl import`: sends a list of any format to the daemon, and reports the differences.

use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use clap::Args;
use indicatif::ProgressBar;
use ratelimit_core::{
    api::{Code, ImportInto, ImportRequest, Imported, ImportedInto, Progress},
    lists::{Action, BYTES_MAX, Connected},
};

use crate::{
    client::{Answer, Client},
    completions,
    exit_code::ExitCode,
    failure::Failure,
    input::{self, Input},
    lifetime::Lifetime,
    output::{printable, printable_lines},
    phrase,
    report::Report,
};

/// `import FILE|- [--list NAME | --ban | --allow]`, `import --remove NAME`
#[derive(Args, Debug)]
#[command(
    after_help = IMPORT_EXAMPLES,
    after_long_help = format!("{IMPORT_EXAMPLES}\n\n{FORMATS}")
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct ImportArguments {
    /// The list in a supported format; `-` reads stdin
    #[arg(value_name = "FILE", required_unless_present = "remove")]
    pub file: Option<PathBuf>,
    /// Replace the list of this name
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["ban", "allow"],
        add = completions::imported_lists(),
    )]
    pub list: Option<String>,
    /// Remove the imported list of this name
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["file", "list", "ban", "allow", "dry_run"],
        add = completions::imported_lists(),
    )]
    pub remove: Option<String>,
    /// Whether the list bans or allows its entries
    #[arg(long, value_name = "ACTION", requires = "list", default_value = "ban")]
    pub action: Action,
    /// Add all entries as manual bans
    #[arg(long, conflicts_with = "allow")]
    pub ban: bool,
    /// Add all entries to the allow list
    #[arg(long)]
    pub allow: bool,
    /// Lifetime of entries without an expiry
    #[arg(long = "for", value_name = "TIME", default_value = "forever")]
    pub lifetime: Lifetime,
    /// Reason for entries without one
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Show the changes without making them
    #[arg(long)]
    pub dry_run: bool,
    /// Skip invalid lines; without this flag an invalid line rejects the whole list
    #[arg(long)]
    pub skip_bad: bool,
    /// Accept prefixes wider than /8 (IPv6: /19), and keep --force on bans exported with it
    #[arg(long)]
    pub force: bool,
    /// Accept a list without entries
    #[arg(long)]
    pub allow_empty: bool,
    /// Accept a list that covers more than 1/64 of IPv4 or IPv6, or ten times as much as before
    #[arg(long)]
    pub allow_wide: bool,
    /// Skip entries with a smaller number after the address, as in `IPsum` lists
    #[arg(long, value_name = "N")]
    pub min_count: Option<u64>,
    /// JSON key of the addresses, such as `prefixes.ip_prefix` [default: found by its name]
    #[arg(long, value_name = "KEY")]
    pub json_path: Option<String>,
    /// Exempt networks that this host is connected to from entries that cover them
    #[arg(long, conflicts_with = "include_connected")]
    pub exempt_connected: bool,
    /// Also ban networks that this host is connected to
    #[arg(long)]
    pub include_connected: bool,
}

impl ImportArguments {
    /// Returns how entries treat the networks that the daemon's host is connected to.
    pub fn connected(&self) -> Option<Connected> {
        let exempt = self.exempt_connected.then_some(Connected::Exempt);
        exempt.or(self.include_connected.then_some(Connected::Include))
    }
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  rlctl import drop.txt --list spamhaus --dry-run
  rlctl import drop.txt --list spamhaus
  ipset save blacklist | rlctl import - --ban --for 1d
  nft -j list set inet filter blackhole | rlctl import - --list blackhole
  rlctl export | rlctl import -
  rlctl import --remove spamhaus

Without --list, --ban and --allow, lines of `rlctl export` return to their origin and everything
from other formats is banned. A list is imported completely or not at all.
If an entry covers a network of this host, such as 10.0.0.0/8 in FireHOL, choose
--exempt-connected or --include-connected.
Firewall rules contribute the sources that they drop without other conditions.";

const FORMATS: &str = "\
Formats, recognized by content:
  one address, prefix or range (192.0.2.1-192.0.2.9) per line, comments after #, ; or //
  FireHOL netset; Spamhaus DROP, text and JSON; IPsum; P2P ranges (.p2p, .dat)
  CSV with a column of addresses; any JSON, such as that of AWS, GitHub or AbuseIPDB
  ipset save, ipset list, files for ipset restore; XML of ipset, firewalld and pfSense
  nft list set, nft -j list set, files for nft -f
  iptables-save, iptables -S and -L -n; ufw status; MikroTik export; pf.conf; hosts.deny
  FortiGate addresses; netsh rules; acl of BIND and Varnish; tables of Postfix
  deny of nginx and Apache; rules of Suricata, Cisco and HAProxy; blackhole routes
  groups and prefix lists of Cisco, Juniper, VyOS and Palo Alto
  cscli decisions list -o raw, -o json; files for cscli decisions import
  fail2ban-client banned, status JAIL, get JAIL banip --with-time
  JSON lines of rlctl export: prefix, action, until, reason, author, since, origin";

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
