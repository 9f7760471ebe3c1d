//! Two CPUs count packets of one source in one word, as fast as they can: not one may be lost.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratelimit_common::{DropReason, Family, Limit, Unit, Verdict, algorithm::FixedWindow, layout};
use ratelimit_daemon::clock;

use crate::{
    Frame, Program, Scene, cpu,
    program::{CONFORMING, Constants},
};

/// Longer than any run takes.
const WINDOW: Duration = Duration::from_hours(24);

/// The counts.
#[derive(Clone, Copy, Debug)]
pub struct Increments {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were admitted.
    pub admitted: u64,
    /// Packets that were refused, and counted as such, because the other CPU changed the word at
    /// every try.
    pub contended: u64,
    /// The usage in the word.
    pub used: u64,
    /// The duration.
    pub elapsed: Duration,
}

impl Increments {
    /// Packets that were admitted, and are not in the word.
    pub const fn lost(&self) -> i64 {
        self.admitted.cast_signed() - self.used.cast_signed()
    }

    /// Whether every packet was counted, with its reason, and every admitted one in the word.
    pub const fn is_exact(&self) -> bool {
        self.lost() == 0 && self.admitted + self.contended == self.sent
    }
}

/// Sends `each` packets of one source from each of two CPUs.
pub fn count(each: u32) -> Result<Increments> {
    let constants = Constants {
        clock: layout::clock::KERNEL,
        ..Constants::default()
    };
    let sent = 2 * u64::from(each);
    let window = FixedWindow::new(2 * sent, WINDOW).expect("a day has room for them");
    let mut program = Program::load(&constants)?;
    Scene::limited(&[Limit::new(window, Unit::Packets)]).set_up(&mut program)?;
    let source = Ipv4Addr::new(10, 0, 0, 1);
    let frame = Frame::ethernet().ipv4(source).udp(53).pad_to(60).build();
    let start = Instant::now();
    for result in cpu::on_two(|_| program.run_often(&frame, each)) {
        result?;
    }
    let elapsed = start.elapsed();
    let packets = |verdict| Ok::<_, anyhow::Error>(program.counter(Family::Ipv4, verdict)?.packets);
    let records = program.ipv4.records()?;
    let (_, record) = records.first().context("the source has no state")?;
    Ok(Increments {
        sent,
        admitted: packets(CONFORMING)?,
        contended: packets(Verdict::Drop(DropReason::Contended))?,
        used: window.used(record.words[0], clock::now()),
        elapsed,
    })
}
