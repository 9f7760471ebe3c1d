//! The third part: a source is banned, nothing of it arrives, and it is let in again.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;

use super::{
    frame::{self, Protocol},
    stage::Stage,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// Twice this is within the limit.
const PACKETS: u64 = 40;
/// What `rlctl check` ends with for a source whose packets are dropped.
const BLOCKED: i32 = 3;

/// Bans, checks, unbans.
pub fn run(stage: &mut Stage) -> Result<()> {
    stage.screen.heading("A ban");
    let source = SOURCE.to_string();
    send(stage, "before the ban", PACKETS)?;
    let ban = ["ban", &source, "--for", "10m", "--reason", "demo"];
    stage.type_in(&ban, 0)?;
    stage.type_in(&["check", &source], BLOCKED)?;
    println!("(exit code {BLOCKED}: blocked)");
    send(stage, "during the ban", 0)?;
    stage.type_in(&["unban", &source], 0)?;
    send(stage, "after the ban", PACKETS)
}

fn send(stage: &mut Stage, when: &str, expected: u64) -> Result<()> {
    let source = IpAddr::from(SOURCE);
    let frame = frame::from(source, Protocol::Tcp, None).build();
    let before = stage.tap.arrivals().of(&[source]);
    for _ in 0..PACKETS {
        stage.wire.send(&frame)?;
    }
    let arrived = stage.tap.settled(&stage.wire)?.of(&[source]) - before;
    let what = format!("{source} {when}");
    let answer = stage.figures.check_exact(&what, expected, arrived);
    let mark = stage.screen.mark(&answer);
    println!("{PACKETS} packets from {source}: {arrived} arrived  {mark}");
    Ok(())
}
