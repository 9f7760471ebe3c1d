//! The second part: a real attack, at its own pace, and what a limit leaves of it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    capture::{self, Captured},
    frame,
    oracle::{self, Limit, Passage},
    stage::Stage,
};
use crate::workspace;

/// A reflection of thousands of servers, each of which sends once or twice.
const CAPTURE: &str = "../shared/captures/amp.UDP.isakmp.pcap";
/// What is left to each of them.
const LIMIT: Limit = Limit::Packets(1);
const LIMIT_TYPED: [&str; 2] = ["1", "1s"];
const REDRAW: Duration = Duration::from_millis(100);

/// Replays `file`, or the capture that lies beside the repository.
pub fn run(stage: &mut Stage, file: Option<&Path>) -> Result<()> {
    stage.screen.heading("A real attack, at its own pace");
    let path = file.map_or_else(|| workspace::root().join(CAPTURE), Path::to_owned);
    if file.is_none() && !path.exists() {
        println!("skipped: there is no capture at {CAPTURE}");
        return Ok(());
    }
    replay(stage, &path)
}

fn replay(stage: &mut Stage, path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let attack = capture::open(path)?;
    let [amount, window] = LIMIT_TYPED;
    stage
        .rlctl
        .type_in(&["limit", "set", "--packets", amount, "--per", window], 0)?;
    let before = stage.tap.arrivals();
    let passages = send(stage, &attack)?;
    let after = stage.tap.settled(&stage.wire)?;

    let mut sums = Sums::default();
    for (source, passages) in &passages {
        let expected = oracle::admitted(LIMIT, passages);
        let arrived = after.of(&[*source]) - before.of(&[*source]);
        let what = format!("{source} of {name}");
        if stage.figures.check(&what, &expected, arrived) != "ok" {
            sums.wrong += 1;
        }
        sums.sent += passages.len();
        sums.arrived += arrived;
    }
    let mark = match sums.wrong {
        0 => "ok".to_owned(),
        wrong => format!("{wrong} sources got something else than the limit says"),
    };
    let sources = passages.len();
    let Sums { sent, arrived, .. } = sums;
    stage.screen.finish(&[
        format!("{name}: {sent} packets from {sources} sources"),
        format!("{arrived} arrived  {}", stage.screen.mark(&mark)),
    ])?;
    stage.rlctl.type_in(&["limit", "rm"], 0)
}

#[derive(Default)]
struct Sums {
    sent: usize,
    arrived: u64,
    wrong: usize,
}

/// Sends each frame when it is due, and answers the passages of each source.
fn send(stage: &mut Stage, attack: &[Captured]) -> Result<BTreeMap<IpAddr, Vec<Passage>>> {
    let mut passages: BTreeMap<IpAddr, Vec<Passage>> = BTreeMap::new();
    let start = Instant::now();
    let mut next_redraw = start;
    for (number, captured) in (1..).zip(attack) {
        let now = Instant::now();
        if now >= next_redraw {
            let seconds = now.duration_since(start).as_secs_f64();
            let total = attack.len();
            let line = format!("{seconds:.1} s: packet {number} of {total}");
            stage.screen.redraw(&[line])?;
            next_redraw = now + REDRAW;
        }
        thread::sleep((start + captured.after).saturating_duration_since(now));
        let passage = stage.wire.send(&captured.frame)?;
        if let Some(source) = frame::source(&captured.frame) {
            passages.entry(source).or_default().push(passage);
        }
    }
    Ok(passages)
}
