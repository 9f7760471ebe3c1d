//! Packets at times that are chosen, so that nothing about them is unknown.
//!
//! On one CPU the host runs the packet decision itself, a packet after the other. On two CPUs the
//! kernel runs it. Its clock is held while both send what came in a step of time, in the kernel's
//! own loop, and moved on when both are done. How packets of one time are ordered changes nothing,
//! so as many must be admitted as the oracle admits.

use std::{net::Ipv4Addr, sync::RwLock};

use anyhow::Result;
use fastrand::Rng;
use ratelimit_common::{DropReason, Family, Instant, Verdict};

use super::{
    Cell, Load, Subject,
    matrix::{Row, new_source},
    promise::{Judgement, Promise},
};
use crate::{
    Frame, Program, Scene,
    cpu::{self, Meeting},
    program::{Action, CONFORMING, Constants},
    scene::Judge,
};

/// The earliest time of the first packet.
const START_NS: u64 = (1 << 40) + 12_345;
/// Steps a window.
const STEPS: u64 = 5;

/// The extent of a run.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// The least number of packets.
    pub packets_min: u64,
    /// The least number of windows.
    pub windows_min: u64,
}

impl Length {
    fn packets(self, load: Load, amount: u64) -> u64 {
        self.packets_min.max(load.packets(amount, self.windows_min))
    }
}

/// Runs packets on one CPU.
pub fn on_one_cpu(cell: &Cell, length: Length) -> Row {
    let subject = cell.subject;
    let mut host =
        Scene::limited(&[subject.limit(subject.amount)]).in_memory(&Constants::default());
    let frame = frame(new_source());
    let mut tally = Tally::new(subject, subject.amount);
    for at_ns in times(cell, subject.amount, length) {
        let verdict = Judge::judge(&mut host, &frame, Instant::from_nanos(at_ns));
        let is_admitted = Action::from(verdict) == Action::Pass;
        tally.add(at_ns, 1, u64::from(is_admitted));
    }
    tally.row
}

/// Runs packets on two CPUs at once, in a program whose clock can be set.
pub fn on_two_cpus(program: &mut Program, cell: &Cell, length: Length) -> Result<Row> {
    let subject = cell.subject;
    program.ipv4.clear()?;
    Scene::limited(&[subject.limit(subject.amount_of_two)]).set_up(program)?;
    let times = times(cell, subject.amount_of_two, length);
    let steps = steps(subject, times);
    let answers = race(program, &steps)?;
    let mut tally = Tally::new(subject, subject.amount_of_two);
    for (step, answers) in steps.iter().zip(answers) {
        tally.add(
            step.at_ns,
            step.packets - answers.contended,
            answers.admitted,
        );
        tally.row.sent += answers.contended;
        tally.row.contended += answers.contended;
    }
    Ok(tally.row)
}

fn times(cell: &Cell, amount: u64, length: Length) -> impl Iterator<Item = u64> + use<> {
    let count = usize::try_from(length.packets(cell.load, amount)).expect("packets can be counted");
    let (load, window_ns) = (cell.load, cell.subject.window_ns);
    let times = cell
        .arrivals
        .times(load, amount, window_ns, Rng::with_seed(1));
    times.take(count).map(|at_ns| START_NS + at_ns)
}

/// Packets of one time.
#[derive(Clone, Copy, Debug)]
struct Step {
    at_ns: u64,
    packets: u64,
}

fn steps(subject: &Subject, times: impl Iterator<Item = u64>) -> Vec<Step> {
    let step_ns = subject.window_ns / STEPS;
    let mut steps: Vec<Step> = vec![];
    for at_ns in times {
        let at_ns = at_ns / step_ns * step_ns;
        match steps.last_mut() {
            Some(step) if step.at_ns == at_ns => step.packets += 1,
            _ => steps.push(Step { at_ns, packets: 1 }),
        }
    }
    steps
}

/// Packets of one step, or of all steps so far.
#[derive(Clone, Copy, Debug)]
struct Answers {
    admitted: u64,
    /// Refused because the other CPU changed the state at every try.
    contended: u64,
}

impl Answers {
    fn so_far(program: &Program) -> Result<Self> {
        const CONTENDED: Verdict = Verdict::Drop(DropReason::Contended);
        Ok(Self {
            admitted: program.counter(Family::Ipv4, CONFORMING)?.packets,
            contended: program.counter(Family::Ipv4, CONTENDED)?.packets,
        })
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            admitted: self.admitted - earlier.admitted,
            contended: self.contended - earlier.contended,
        }
    }
}

/// Two CPUs send half of each step, and the first moves the clock; answers what came of each step.
fn race(program: &mut Program, steps: &[Step]) -> Result<Vec<Answers>> {
    let (frame, meeting) = (frame(new_source()), Meeting::default());
    let program = RwLock::new(program);
    let work = |cpu| -> Result<Vec<Answers>> {
        let mut totals = vec![];
        for (number, step) in steps.iter().enumerate() {
            meeting.meet(2 * number);
            if cpu == 0 {
                let program = program.write().expect("nobody panics");
                totals.push(Answers::so_far(&program)?);
                program.set_clock(Instant::from_nanos(step.at_ns))?;
            }
            meeting.meet(2 * number + 1);
            // The second CPU sends the odd packet.
            let half = step.packets.midpoint(cpu as u64);
            if half > 0 {
                let program = program.read().expect("nobody panics");
                program.run_often(&frame, u32::try_from(half)?)?;
            }
        }
        Ok(totals)
    };
    let [totals, other] = cpu::on_two(work);
    let (mut totals, _) = (totals?, other?);
    let program = program.read().expect("nobody panics");
    totals.push(Answers::so_far(&program)?);
    Ok(totals
        .windows(2)
        .map(|pair| pair[1].since(pair[0]))
        .collect())
}

fn frame(source: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet().ipv4(source).udp(53).pad_to(60).build()
}

/// Counts answers beside the oracle and the promise.
struct Tally {
    oracle: Box<dyn super::oracle::Oracle>,
    promise: Box<dyn Promise>,
    row: Row,
}

impl Tally {
    fn new(subject: &Subject, amount: u64) -> Self {
        Self {
            oracle: (subject.oracle)(amount, subject.window_ns),
            promise: (subject.promise)(amount, subject.window_ns),
            row: Row::default(),
        }
    }

    /// Adds packets with the same time, and the admitted number.
    fn add(&mut self, at_ns: u64, packets: u64, admitted: u64) {
        self.row.sent += packets;
        self.row.admitted += admitted;
        for packet in 0..packets {
            self.row.oracle += u64::from(self.oracle.admits(at_ns));
            match self.promise.judge(at_ns, packet < admitted) {
                Judgement::Kept => {}
                Judgement::OverAdmitted => self.row.over_admitted += 1,
                Judgement::WronglyRefused => self.row.wrongly_refused += 1,
            }
        }
    }
}
