//! `rlctl capture`: dropped packets, with their reasons, in a file for `tshark` and
//! `rlctl simulate`.

mod blocks;

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use hyper::Method;
use ratelimit_core::api::CaptureRequest;
use serde_json::json;

use self::blocks::{Blocks, Tally};
use crate::{
    capture_arguments::CaptureArguments,
    client::Client,
    failure::Failure,
    output::{self, Output},
    phrase, prefixes,
    report::Report,
};

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
    client.stream(
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
                Ok(()) => Ok(true),
                Err(error) if is_stdout && error.kind() == ErrorKind::BrokenPipe => Ok(false),
                Err(error) => Err(unwritten(&arguments.write, &error)),
            }
        },
    )?;
    let tally = blocks.tally;
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
}
