//! Packets at the kernel's own time.
//!
//! The oracle needs the times at which the program judged them, and they can be read. The measured
//! policy has a second limit, a bucket of a token per nanosecond, whose word contains the time of
//! the last charge. For a refused packet, the strikes of its source contain the time. Both are read
//! after each packet. See [`sighting`](super::sighting) for the case that the other CPU came in
//! between.

use std::{hint::spin_loop, net::Ipv4Addr, thread, time::Duration};

use anyhow::Result;
use fastrand::Rng;
use ratelimit_common::{
    Instant, Limit, SourceKey, Unit,
    algorithm::{Algorithm, TokenBucket},
};
use ratelimit_daemon::clock;

use super::{
    Cell, Subject,
    bracketed::Bracket,
    explanation::Observation,
    matrix::{Row, new_source},
    sighting::{Sighting, observations},
};
use crate::{
    Frame, Program, Scene,
    cpu::{self, Meeting},
    program::Action,
};

/// Packets a window: a prime, and so few that one CPU can send ten times as many.
pub const AMOUNT: u64 = 397;

/// Sends packets for about `length` through a program that reads the kernel's clock. Where CPUs
/// were preempted for so long that not every order of the packets can be tried, it measures again.
pub fn run(program: &mut Program, cell: &Cell, length: Duration) -> Result<Row> {
    const TRIES: usize = 5;
    for _ in 1..TRIES {
        let (row, is_cut_short) = measure(program, cell, length)?;
        let is_right = row.over_admitted + row.wrongly_refused == 0;
        if is_right || !is_cut_short {
            return Ok(row);
        }
    }
    Ok(measure(program, cell, length)?.0)
}

/// Measures once. Also returns whether some orders of the packets were not tried.
fn measure(program: &mut Program, cell: &Cell, length: Duration) -> Result<(Row, bool)> {
    let subject = cell.subject;
    program.ipv4.clear()?;
    let witness = Witness::new(new_source());
    Scene::limited(&[subject.limit(AMOUNT), witness.limit()]).set_up(program)?;
    let rng = Rng::with_seed(clock::now().as_nanos());
    let times = cell
        .arrivals
        .times(cell.load, AMOUNT, subject.window_ns, rng);
    let end_ns = u64::try_from(length.as_nanos())?;
    let times: Vec<u64> = times.take_while(|at_ns| *at_ns < end_ns).collect();
    let by_cpu = send(program, &witness, &times, cell.cpus, end_ns)?;
    Ok(row(subject, &observations(&by_cpu)))
}

/// Sends a packet at each of the times, from one CPU after the other. A packet that is late is sent
/// as soon as possible, but not after the end.
fn send(
    program: &Program,
    witness: &Witness,
    times: &[u64],
    cpus: usize,
    end_ns: u64,
) -> Result<[Vec<Sighting>; 2]> {
    let frame = Frame::ethernet()
        .ipv4(witness.source)
        .udp(53)
        .pad_to(60)
        .build();
    let meeting = Meeting::default();
    let work = |cpu| -> Result<Vec<Sighting>> {
        meeting.meet(0);
        let start_ns = clock::now().as_nanos();
        let mine = times.iter().skip(cpu).step_by(cpus);
        let mut sightings = vec![];
        for at_ns in mine.take_while(|_| cpu < cpus) {
            let earliest_ns = wait_until(start_ns + at_ns);
            if earliest_ns > start_ns + end_ns {
                break;
            }
            let is_admitted = program.run(&frame)? == Action::Pass;
            let bracket = Bracket {
                earliest_ns,
                latest_ns: clock::now().as_nanos(),
            };
            sightings.push(Sighting {
                bracket,
                is_admitted,
                witness_ns: witness.testify(program, bracket, is_admitted)?,
            });
        }
        Ok(sightings)
    };
    let [left, right] = cpu::on_two(work);
    Ok([left?, right?])
}

/// Waits, and answers the time: busily at the end, as waking up takes longer than a packet.
fn wait_until(at_ns: u64) -> u64 {
    const BUSY: Duration = Duration::from_millis(2);
    loop {
        let now_ns = clock::now().as_nanos();
        let left = Duration::from_nanos(at_ns.saturating_sub(now_ns));
        if left.is_zero() {
            return now_ns;
        }
        match left.checked_sub(BUSY) {
            Some(idle) => thread::sleep(idle),
            None => spin_loop(),
        }
    }
}

/// Determines when a packet of the source was judged.
struct Witness {
    source: Ipv4Addr,
    bucket: Algorithm,
}

impl Witness {
    fn new(source: Ipv4Addr) -> Self {
        // Full again a nanosecond after each packet, and large enough to refuse none: not even one
        // that reads the clock and is then delayed for most of a second, while the other CPU
        // continues.
        let bucket = TokenBucket::new(1_000_000_000, Duration::from_secs(1), 1_000_000_000);
        Self {
            source,
            bucket: bucket.expect("a token a nanosecond").into(),
        }
    }

    fn limit(&self) -> Limit {
        Limit::new(self.bucket, Unit::Packets)
    }

    /// The time at which the last packet with this answer was judged.
    fn testify(&self, program: &Program, bracket: Bracket, is_admitted: bool) -> Result<u64> {
        if !is_admitted {
            return Ok(program.ipv4.refusals_of(&self.source.into())?.last_ns);
        }
        let record = program
            .ipv4
            .record(&SourceKey::new(self.source.into(), 0))?;
        let from = Instant::from_nanos(bracket.earliest_ns);
        let full_in_ns = self.bucket.clears_in_ns(record.words[1], from);
        Ok((bracket.earliest_ns + full_in_ns).saturating_sub(1))
    }
}

/// Compares the packets with the oracle. With one CPU, times and order are known, and the oracle
/// runs independently. With two CPUs, it gets the times and the order that explain the most
/// answers; this uses the definition, so not for an estimate. Also returns whether some orders were
/// not tried.
fn row(subject: &Subject, by_cpu: &[Vec<Observation>; 2]) -> (Row, bool) {
    let all = || by_cpu.iter().flatten();
    let admitted = all().filter(|packet| packet.is_admitted).count() as u64;
    let findings = (subject.explain)(AMOUNT, subject.window_ns, by_cpu);
    let is_one_cpu = by_cpu.iter().any(Vec::is_empty);
    let row = Row {
        sent: all().count() as u64,
        admitted,
        oracle: if is_one_cpu || !subject.is_exact {
            by_itself(subject, by_cpu)
        } else {
            admitted + findings.wrongly_refused - findings.over_admitted
        },
        over_admitted: findings.over_admitted,
        wrongly_refused: findings.wrongly_refused,
        undecided: findings.undecided,
        ..Row::default()
    };
    (row, findings.is_cut_short)
}

/// Returns what the oracle admits of the packets in the order of their times. An uncertain time is
/// replaced by the middle of its range.
fn by_itself(subject: &Subject, by_cpu: &[Vec<Observation>; 2]) -> u64 {
    let middle = |of: &Observation| of.at.earliest_ns.midpoint(of.at.latest_ns);
    let mut times: Vec<u64> = by_cpu.iter().flatten().map(middle).collect();
    times.sort_unstable();
    let mut oracle = (subject.oracle)(AMOUNT, subject.window_ns);
    times.retain(|at_ns| oracle.admits(*at_ns));
    times.len() as u64
}
