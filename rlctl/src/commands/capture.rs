//! `rlctl capture`: dropped packets, with their reasons, in a file for `tshark` and
//! `rlctl simulate`.

mod blocks;

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use hyper::Method;
use ratelimit_common::capture::SNAP_MAX;
use ratelimit_core::{api::CaptureRequest, quantity};
use serde_json::json;

use self::blocks::{Blocks, Tally};
use crate::{
    client::Client,
    exit_code::ExitCode,
    failure::Failure,
    output::{self, Output},
    phrase, prefixes,
    report::Report,
};

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

const PATH: &str = "/v1/capture";
/// Packets may contain private data.
const MODE: u32 = 0o600;

/// Captures until the requested number is reached, or the user stops it.
pub fn run(
    arguments: &CaptureArguments,
    client: &Client,
    output: &Output,
) -> Result<Report, Failure> {
    let request = request(arguments)?;
    let is_stdout = arguments.write == Path::new("-");
    let mut file: Option<Box<dyn Write>> = None;
    let mut blocks = Blocks::default();
    let mut bytes = 0;
    let ended = client.stream(
        Method::POST,
        PATH,
        Some(&request),
        Some((&Method::DELETE, PATH)),
        |piece| {
            // Only after the daemon agreed, so that a refusal does not truncate an existing file.
            let file = if let Some(file) = &mut file {
                file
            } else {
                output.progress(&format!("capturing {request}; stop with Ctrl-C"));
                file.insert(open(&arguments.write)?)
            };
            let whole = blocks.push(piece);
            match file.write_all(&whole).and_then(|()| file.flush()) {
                Ok(()) => {
                    bytes += whole.len();
                    Ok(true)
                }
                Err(error) if is_stdout && error.kind() == ErrorKind::BrokenPipe => Ok(false),
                Err(error) => Err(unwritten(&arguments.write, &error)),
            }
        },
    );
    let tally = blocks.tally;
    ended.map_err(|mut failure| {
        if failure.code == ExitCode::NoDaemon && bytes > 0 {
            let packets = phrase::packets(tally.written);
            let written = format!("; the capture has {packets} ({bytes} bytes)");
            failure.refused.error.push_str(&written);
        }
        failure
    })?;
    let text = summary(&tally, request.every);
    let json = json!({
        "file": arguments.write,
        "written": tally.written,
        "matched": tally.matched,
        "not_written": tally.not_written,
    });
    if is_stdout {
        // Standard output has the packets.
        if !output.is_for_people() {
            output::say(&json.to_string());
        }
        return Ok(Report::printed().note(text));
    }
    let file = arguments.write.display();
    Ok(Report::from_json(json, format!("{file}: {text}")))
}

fn request(arguments: &CaptureArguments) -> Result<CaptureRequest, Failure> {
    let source = arguments.within.as_deref().map(prefixes::read_one);
    Ok(CaptureRequest {
        every: arguments.sample,
        snap: arguments.snap,
        count: arguments.count,
        seconds: arguments.time.map(|time| time.as_secs_f64()),
        reasons: arguments.reasons.clone(),
        source: source.transpose()?,
    })
}

/// Opens the file as `tcpdump -w` does: one that is there is replaced. A file that is made is for
/// its owner only.
fn open(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        if io::stdout().is_terminal() {
            return Err(
                Failure::usage("refusing to write a capture to the terminal").hint(
                    "write to a file with `-w FILE`, or to a pipe: `rlctl capture -w - | tshark -r \
                     -`",
                ),
            );
        }
        return Ok(Box::new(io::stdout()));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(MODE);
    let file = options.open(path);
    file.map(|file| Box::new(file) as Box<dyn Write>)
        .map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::refused(format!("cannot write {}: {error}", path.display()))
}

/// `1000 packets captured, 4 of 1,004 not written: they came faster than they could be copied`
fn summary(tally: &Tally, every: u32) -> String {
    let written = format!("{} written", phrase::packets(tally.written));
    let sampled = match every {
        1 => String::new(),
        _ => format!(", of {} dropped", tally.matched),
    };
    let missing = match tally.not_written {
        0 => String::new(),
        missing => format!(
            "; {missing} of {} lost because they arrived faster than they could be copied",
            missing + tally.sent
        ),
    };
    written + &sampled + &missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_are_reported() {
        let tally = Tally {
            written: 1_000,
            matched: 100_400,
            sent: 1_000,
            not_written: 4,
        };
        check(
            tally,
            100,
            "1000 packets written, of 100400 dropped; 4 of 1004 lost because they arrived faster \
             than they could be copied",
        );
        let one = Tally {
            written: 1,
            sent: 1,
            matched: 1,
            not_written: 0,
        };
        check(one, 1, "1 packet written");
    }

    fn check(tally: Tally, every: u32, expected: &str) {
        assert_eq!(summary(&tally, every), expected);
    }

    #[test]
    fn a_sample_is_one_of_some() {
        check_sample("1/100", Some(100));
        check_sample("1/1", Some(1));
        for wrong in ["1/0", "2/100", "100", "1/", "1/-3", "0.01"] {
            check_sample(wrong, None);
        }
    }

    fn check_sample(text: &str, expected: Option<u32>) {
        assert_eq!(sample(text).ok(), expected, "{text}");
    }
}
