//! The arguments of `rlctl simulate`, and the help that tells what its JSON holds.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use ratelimit_core::quantity;

/// `simulate CAPTURE --config FILE [--compare FILE]`
#[derive(Args, Debug)]
#[command(
    after_help = SIMULATE_EXAMPLES,
    after_long_help = format!("{SIMULATE_EXAMPLES}\n\n{SIMULATE_JSON}")
)]
pub struct SimulateArguments {
    /// The capture, pcap or pcapng. `-` reads stdin
    ///
    /// Every packet of it counts, also those that the host sent, so capture with `tcpdump -Q in`. Packets of Linux cooked,
    /// loopback, PPP, Cisco HDLC and raw IP captures get an Ethernet header. A packet that the capture cut counts with its length on the wire.
    #[arg(value_name = "CAPTURE")]
    pub capture: PathBuf,
    /// The configuration, as `ratelimitd` reads it, with `conf.d/*.toml` beside it
    ///
    /// Runtime changes by `rlctl` are no part of it.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Another configuration for the same packets, to show the difference
    #[arg(long, value_name = "OLD")]
    pub compare: Option<PathBuf>,
    /// How many sources to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Length of the intervals in the timeline [default: by the length of the capture]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  rlctl simulate attack.pcap --config new.toml
  rlctl simulate attack.pcap --config new.toml --compare /etc/ratelimit/config.toml
  rlctl simulate attack.pcapng --config new.toml --interval 1s --json | jq .timeline
  tcpdump -i eth0 -Q in -c 100000 -w - | rlctl simulate - --config new.toml

The kernel's own code judges the packets, at the times of the capture. Where there are more \
sources than `[source] capacity`, the configured store evicts state, and a note says how often. \
The kernel evicts nearly the same sources from `lru`. No source has a connection. Attacks that have a \
table in `[detection]` are named, and their sources. The answers are not carried out: no verdict is that of a \
ban or a limit that an attack brings. An ACK flood is never named, as a capture does not say which connections \
the host has. A capture that is cut is simulated up to the cut, and ends with 1.";

const SIMULATE_JSON: &str = "\
With --json:
  capture    file, format, complete, error, packets, bytes, cut, cut_headers, sources, first,
             duration_seconds, packets_per_second_max, backwards (packets older than the one
             before), untimed
  config     file, observe
  verdicts   action, reason, packets, bytes; a row for each verdict that was given
  sources_dropped
             how many sources lost a packet, or would have but for a dry run
  sources_capacity, sources_evicted
             sources of a family for which there is room; how often one lost its state to another
  sources    source, passed, dropped, observed, first: reason, policy, limit; --top of them
  timeline   interval_seconds, intervals: start_seconds, passed, dropped, observed
  attacks    null where none is looked for, or kind, subject, start_seconds, end_seconds,
             packets_per_second, sources_seen, answer, sources: those it would be given to,
             budgets of a minute aside
  challenged null where nobody is, or sources, verified: those that acknowledge something later
  compare    null, or file, verdicts_old and timeline_old (as above), verdicts: old and new
             (action, reason), packets, bytes; sources_changed, sources_newly_dropped,
             sources_no_longer_dropped, sources: source, old and new (passed, dropped,
             observed), first; --top of them";

fn interval(text: &str) -> Result<Duration, String> {
    match quantity::parse_duration(text) {
        Ok(Duration::ZERO) => {
            Err("an interval of no time holds no packet: write for example 1s".to_owned())
        }
        answer => answer.map_err(|error| error.to_string()),
    }
}
