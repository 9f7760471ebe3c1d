//! `rlctl simulate`: shows which packets of a capture a configuration would drop. It needs no
//! daemon.

mod answer;
mod text;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use ratelimit_core::{
    capture::{Capture, CaptureError},
    config::{self, Interface},
    list_file, quantity,
    simulation::{Configured, Simulation, TooManyIntervals, answer::Answer},
};
use rustix::time::ClockId;

use crate::{
    clock,
    commands::config::wrong,
    failure::Failure,
    input::Input,
    output::{printable, printable_lines},
    report::Report,
};

/// `simulate CAPTURE --config FILE [--compare FILE]`
#[derive(Args, Debug)]
#[command(
    after_help = SIMULATE_EXAMPLES,
    after_long_help = format!("{SIMULATE_EXAMPLES}\n\n{SIMULATE_JSON}")
)]
pub struct SimulateArguments {
    /// The capture, pcap or pcapng. `-` reads stdin
    ///
    /// All its packets count, also those sent by the host, so capture with `tcpdump -Q in`. Packets
    /// of Linux cooked, loopback, PPP, Cisco HDLC and raw IP captures get an Ethernet header.
    /// Truncated packets count with their length on the wire.
    #[arg(value_name = "CAPTURE")]
    pub capture: PathBuf,
    /// The configuration, as `ratelimitd` reads it, with `conf.d/*.toml` beside it
    ///
    /// Runtime changes by `rlctl` are not included.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Another configuration for the same packets, to show the difference
    #[arg(long, value_name = "OLD")]
    pub compare: Option<PathBuf>,
    /// Number of sources to show
    #[arg(long, alias = "top", value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// Length of the intervals in the timeline [default: depends on the capture]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  rlctl simulate attack.pcap --config new.toml
  rlctl simulate attack.pcap --config new.toml --compare /etc/ratelimit/config.toml
  rlctl simulate attack.pcapng --config new.toml --interval 1s --json | jq .timeline
  tcpdump -i eth0 -Q in -c 100000 -w - | rlctl simulate - --config new.toml

The packets are judged by the code that runs in the kernel, at the times of the capture. If there \
are more sources than `[source] capacity`, the configured store evicts state and a note reports \
how often; the kernel evicts nearly the same sources from `lru`. No source has an established \
connection. Attacks with a table in `[detection]` are reported with their sources, but their bans \
and limits are not simulated. ACK floods are not detected because a capture does not show the \
connections of the host. A truncated capture is simulated up to its end, with exit code 1.";

const SIMULATE_JSON: &str = "\
With --json:
  capture    file, format, complete, error, packets, bytes, cut, cut_headers, sources, first,
             duration_seconds, packets_per_second_max, backwards (packets older than the one
             before), untimed
  config     file, observe
  verdicts   action, reason, packets, bytes; one row per verdict
  sources_dropped
             number of sources that lost a packet, or would have without a dry run
  sources_capacity, sources_evicted
             capacity per address family; number of evictions
  sources    source, passed, dropped, observed, first: reason, policy, limit; --rows of them
  timeline   interval_seconds, intervals: start_seconds, passed, dropped, observed
  attacks    null without detection, or kind, subject, start_seconds, end_seconds,
             packets_per_second, sources_seen, answer, sources: those it would apply to,
             regardless of budgets per minute
  challenged null without a challenge, or sources, verified: those with a later ACK
  compare    null, or file, verdicts_old and timeline_old (as above), verdicts: old and new
             (action, reason), packets, bytes; sources_changed, sources_newly_dropped,
             sources_no_longer_dropped, sources: source, old and new (passed, dropped,
             observed), first; --rows of them";

fn interval(text: &str) -> Result<Duration, String> {
    match quantity::parse_duration(text) {
        Ok(Duration::ZERO) => Err("an interval cannot be 0: write for example 1s".to_owned()),
        answer => answer.map_err(|error| error.to_string()),
    }
}

/// Reads the capture through both configurations. It ends as refused, and with an answer, when the
/// capture ends too early.
pub fn run(arguments: &SimulateArguments) -> Result<Report, Failure> {
    let (new, mut notes) = load(&arguments.config)?;
    let old = arguments.compare.as_deref().map(load).transpose()?;
    let (old, old_notes) = old.map_or((None, vec![]), |(old, notes)| (Some(old), notes));
    notes.extend(old_notes);
    let mut simulation = Simulation::new(new, old, arguments.interval)
        .map_err(|error| Failure::refused(error.to_string()))?;
    let input = Input::open(&arguments.capture)?;
    let name = input.name().to_owned();
    let mut capture = Capture::open(input).map_err(|error| no_capture(&name, &error))?;
    let format = capture.format();
    let ended = capture.read(|packet| Ok(simulation.packet(packet)?));
    simulation.finish();
    let answer = simulation.answer(arguments.rows);
    let broken = match ended {
        Ok(()) => None,
        Err(Stopped::Intervals(error)) => return Err(Failure::usage(error.to_string())),
        Err(Stopped::Capture(error)) if answer.packets == 0 => {
            return Err(no_capture(&name, &error));
        }
        Err(Stopped::Capture(error)) => Some(error),
    };
    drop(capture);
    let json = answer::json(arguments, &name, format, &answer, broken.as_ref());
    notes.extend(text::notes(&answer));
    let text = text::render(&name, arguments, &answer);
    let mut report = Report::from_json(json, text).notes(notes);
    report.failure = broken.map(|error| half_read(&name, &error, &answer));
    Ok(report)
}

/// The reason no further packets are read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Stopped {
    Capture(#[from] CaptureError),
    Intervals(#[from] TooManyIntervals),
}

/// A configuration with its lists, what in it is probably not meant, and the lists that cannot be
/// read.
fn load(file: &Path) -> Result<(Configured, Vec<String>), Failure> {
    let (config, warnings) =
        config::inspect(file).map_err(|error| wrong(file, &error.to_string()))?;
    let mut notes: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let mut lists = Vec::new();
    for (name, list) in &config.lists {
        match list_file::read(list, clock::wall()) {
            Ok(reading) => lists.push((name.clone(), reading)),
            Err(refused) => notes.push(format!(
                "skipping list {name}: {}",
                printable_lines(refused.in_full())
            )),
        }
    }
    let tick = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    let tick = Duration::try_from(tick).unwrap_or_default();
    notes.extend(config.interfaces.iter().filter_map(own_rule));
    Ok((
        Configured {
            config,
            lists,
            tick,
        },
        notes,
    ))
}

/// A capture does not say by which interface its packets came.
fn own_rule(interface: &Interface) -> Option<String> {
    let has_rule = interface.policy.is_some() || interface.node.is_some() || interface.observe;
    has_rule.then(|| {
        let name = printable(&interface.name);
        format!(
            "packets are judged as on an interface without `policy`, `node` and `observe`; those \
             of {name} are ignored"
        )
    })
}

fn no_capture(name: &str, error: &CaptureError) -> Failure {
    Failure::refused(format!(
        "cannot read any packet of {}: {error}",
        printable(name)
    ))
}

fn half_read(name: &str, error: &CaptureError, answer: &Answer) -> Failure {
    let name = printable(name);
    let packets = answer.packets;
    Failure::refused(format!("{name} ends early: {error}")).hint(format!(
        "the result covers the {packets} packets before that"
    ))
}
