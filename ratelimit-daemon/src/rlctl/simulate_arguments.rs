//! The arguments of `rlctl simulate`, and the help that tells what its JSON holds.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::quantity;

/// `simulate CAPTURE --config FILE [--compare FILE]`
#[derive(Args, Debug)]
#[command(
    after_help = SIMULATE_EXAMPLES,
    after_long_help = format!("{SIMULATE_EXAMPLES}\n\n{SIMULATE_JSON}")
)]
pub struct SimulateArguments {
    /// The capture, pcap or pcapng; `-` reads stdin
    ///
    /// Every packet in it is judged, also those that the host sent: capture with `tcpdump -Q in`. The header of Linux cooked,
    /// loopback and raw IP captures is replaced by one of Ethernet. A packet that was cut by the capture counts with the bytes
    /// that it had on the wire.
    #[arg(value_name = "CAPTURE")]
    pub capture: PathBuf,
    /// The configuration, as `ratelimitd` reads it, with `conf.d/*.toml` beside it
    ///
    /// What was set by hand with `rlctl` is no part of it.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Another configuration to run on the same packets, to show the difference
    #[arg(long, value_name = "OLD")]
    pub compare: Option<PathBuf>,
    /// How many sources to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// The length of the intervals that are shown [default: what suits the capture]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  rlctl simulate attack.pcap --config new.toml
  rlctl simulate attack.pcap --config new.toml --compare /etc/ratelimit/config.toml
  rlctl simulate attack.pcapng --config new.toml --interval 1s --json | jq .timeline
  tcpdump -i eth0 -Q in -c 100000 -w - | rlctl simulate - --config new.toml

The packets are judged as the kernel judges them, at the times of the capture. Where there are
more sources than `[source] capacity`, sources lose their state as in the store that is
configured, and a note says how often; of `lru` the kernel chooses them nearly so. No source
has a connection. A capture that is cut is simulated up to there, and ends with 1.";

const SIMULATE_JSON: &str = "\
With --json:
  capture    file, format, complete, error, packets, bytes, sources, first, duration_seconds,
             packets_per_second_max, backwards (packets older than the one before), untimed
  config     file, observe
  verdicts   action, reason, packets, bytes; a row for each verdict that was given
  sources_dropped
             how many sources lost a packet, or would have but for a dry run
  sources_capacity, sources_evicted
             sources of a family for which there is room; how often one lost its state to another
  sources    source, passed, dropped, observed, first: reason, policy, limit; --top of them
  timeline   interval_seconds, intervals: start_seconds, passed, dropped, observed
  compare    null, or file, verdicts_old and timeline_old (as above), verdicts: old and new (action,
             reason), packets, bytes; sources_changed, sources_newly_dropped, sources_no_longer_dropped,
             sources: source, old and new (passed, dropped, observed), first; --top of them";

fn interval(text: &str) -> Result<Duration, String> {
    match quantity::parse_duration(text) {
        Ok(Duration::ZERO) => {
            Err("an interval of no time holds no packet: write for example 1s".to_owned())
        }
        answer => answer.map_err(|error| error.to_string()),
    }
}
