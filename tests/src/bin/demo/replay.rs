//! The second part: a real attack, at its own pace, and what a limit leaves of it.

use std::{
    collections::BTreeMap,
    fs::File,
    net::IpAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratelimit_core::capture::Capture;
use ratelimit_tests::exactness::bracketed::Bracket;

use super::{frame, oracle, stage::Stage};

/// A reflection of thousands of servers, each of which sends once or twice.
const CAPTURE: &str = "../shared/captures/amp.UDP.isakmp.pcap";
/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// What is left to each of them.
const LIMIT: u64 = 1;
const REDRAW: Duration = Duration::from_millis(100);

/// Replays `file`, or the capture that lies beside the repository.
pub fn run(stage: &mut Stage, file: Option<&Path>) -> Result<()> {
    stage.screen.heading("A real attack, at its own pace");
    let path = file.map_or_else(|| Path::new(ROOT).join(CAPTURE), Path::to_owned);
    if file.is_none() && !path.exists() {
        println!("skipped: there is no capture at {CAPTURE}");
        return Ok(());
    }
    replay(stage, &path)
}

fn replay(stage: &mut Stage, path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let attack = read(path).with_context(|| format!("reading the capture {}", path.display()))?;
    let amount = LIMIT.to_string();
    stage.type_in(&["limit", "set", "--packets", &amount, "--per", "1s"], 0)?;
    let before = stage.tap.arrivals();
    let brackets = send(stage, &attack)?;
    let after = stage.tap.settled(&stage.wire)?;

    let mut sums = Sums::default();
    for (source, brackets) in &brackets {
        let expected = oracle::admitted(Some(LIMIT), brackets);
        let arrived = after.of(&[*source]) - before.of(&[*source]);
        let what = format!("{source} of {name}");
        if stage.figures.check(&what, &expected, arrived) != "ok" {
            sums.wrong += 1;
        }
        sums.sent += brackets.len() as u64;
        sums.arrived += arrived;
    }
    let mark = match sums.wrong {
        0 => "ok".to_owned(),
        wrong => format!("{wrong} sources got something else than the limit says"),
    };
    let sources = brackets.len();
    let Sums { sent, arrived, .. } = sums;
    stage.screen.finish(&[
        format!("{name}: {sent} packets from {sources} sources"),
        format!(
            "{arrived} arrived, {} dropped  {}",
            sent.saturating_sub(arrived),
            stage.screen.mark(&mark)
        ),
    ])?;
    stage.type_in(&["limit", "rm"], 0)
}

#[derive(Default)]
struct Sums {
    sent: u64,
    arrived: u64,
    wrong: usize,
}

/// The frames of a capture, each with the time since the first one.
fn read(path: &Path) -> Result<Vec<(Duration, Vec<u8>)>> {
    let (mut start_ns, mut frames) = (None, vec![]);
    Capture::open(File::open(path)?)?.read(|packet| {
        let time_ns = packet.time_ns.context("a frame has no time")?;
        let after_ns = time_ns.saturating_sub(*start_ns.get_or_insert(time_ns));
        frames.push((Duration::from_nanos(after_ns), packet.frame.to_vec()));
        Ok::<_, anyhow::Error>(())
    })?;
    Ok(frames)
}

/// Sends each frame when it is due, and answers the brackets of each source.
fn send(
    stage: &mut Stage,
    attack: &[(Duration, Vec<u8>)],
) -> Result<BTreeMap<IpAddr, Vec<Bracket>>> {
    let mut brackets: BTreeMap<IpAddr, Vec<Bracket>> = BTreeMap::new();
    let start = Instant::now();
    let mut next_redraw = start;
    for (number, (after, frame)) in (1..).zip(attack) {
        let now = Instant::now();
        if now >= next_redraw {
            let seconds = now.duration_since(start).as_secs_f64();
            let total = attack.len();
            let line = format!("{seconds:.1} s: packet {number} of {total}");
            stage.screen.redraw(&[line])?;
            next_redraw = now + REDRAW;
        }
        thread::sleep((start + *after).saturating_duration_since(now));
        let bracket = stage.wire.send(frame)?;
        if let Some(source) = frame::source(frame) {
            brackets.entry(source).or_default().push(bracket);
        }
    }
    Ok(brackets)
}
