//! The arguments of `rlctl simulate`, and the help that describes its JSON.

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
