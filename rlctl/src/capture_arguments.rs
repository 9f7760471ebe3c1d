//! `capture -w FILE [--sample 1/N] [--count N] [--for TIME] [--drop-reason R] [--within PREFIX]
//! [--snap BYTES]`

use std::{path::PathBuf, time::Duration};

use clap::Args;
use ratelimit_common::capture::SNAP_MAX;
use ratelimit_core::quantity;

/// Arguments of `rlctl capture`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl capture -w drops.pcapng --sample 1/100 --for 1m
  rlctl capture -w drops.pcapng --drop-reason limited --within 203.0.113.0/24 --count 1000
  rlctl capture -w - | tshark -r - -T fields -e ip.src -e frame.comment

Each packet has its drop reason as a comment, which also marks packets that passed in a dry run. \
At most 10000 packets per second, CPU and interface are captured; the rest is reported as a count. \
Only one capture runs at a time. Packets that pass are not captured. An existing file is replaced, \
and only its owner can read it.")]
pub struct CaptureArguments {
    /// The pcapng file to write. `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub write: PathBuf,
    /// Capture one of N packets
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = sample)]
    pub sample: u32,
    /// Stop after this number of packets
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Stop after this time: 90 (seconds), 10m
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
    /// Only packets dropped for this reason of `rlctl stats`; can be repeated
    #[arg(
        long = "drop-reason",
        alias = "reason",
        value_name = "REASON",
        value_delimiter = ','
    )]
    pub reasons: Vec<String>,
    /// Only packets from an address or a prefix
    #[arg(long, alias = "source", value_name = "PREFIX")]
    pub within: Option<String>,
    /// Bytes to keep of each packet
    #[arg(
        long,
        short = 's',
        value_name = "BYTES",
        default_value_t = SNAP_MAX,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(SNAP_MAX)),
    )]
    pub snap: u32,
}

/// Parses `1/N` or `N`: one packet in N.
fn sample(text: &str) -> Result<u32, String> {
    let every = text.strip_prefix("1/").and_then(|every| every.parse().ok());
    let every = every.filter(|every| *every > 0);
    every.ok_or_else(|| "write 1/100 for one of a hundred packets".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    let time = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() {
        return Err("the duration must be greater than 0, for example `10s`".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_one_of_some() {
        check("1/100", Some(100));
        check("1/1", Some(1));
        for wrong in ["1/0", "2/100", "100", "1/", "1/-3", "0.01"] {
            check(wrong, None);
        }
    }

    fn check(text: &str, expected: Option<u32>) {
        assert_eq!(sample(text).ok(), expected, "{text}");
    }
}
