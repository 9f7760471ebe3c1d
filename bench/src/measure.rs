//! Measuring the cases of a scenario, each beside the baseline.

use anyhow::{Context, Result, ensure};
use aya::programs::ProgramFd;
use ratelimit_tests::{Lab, cpu};

use crate::{
    harness::{Harness, Run},
    installation::Installation,
    report::{Report, Row},
    scenario::{Case, Scenario},
    statistics::Spread,
    traffic::{Cpus, Traffic},
};

/// The action of the empty program.
const XDP_PASS: u32 = 2;
/// Packets that each source sends, on average, before anything is measured.
const WARM_UP: u64 = 4;
/// The part of the packets that must get the verdict that a case is named after: a flood meets a
/// few bans.
const EXPECTED_PART: f64 = 0.95;
/// The attempts of a run on several CPUs.
const ATTEMPTS: usize = 5;
/// The part of its time that a CPU may do something else for in a run on several CPUs.
const WAITED_PART: f64 = 0.05;

/// The extent of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Packets in a run, on each CPU.
    pub packets: u32,
    /// Runs of each case.
    pub rounds: usize,
}

/// Measures cases.
pub struct Bench<'a> {
    /// The BPF object of the harness.
    pub object: &'a [u8],
    /// The lab in which the product is installed.
    pub lab: &'a Lab,
    /// The extent of the measurement.
    pub effort: Effort,
}

/// A case under way.
struct Running<'a> {
    case: &'a Case,
    name: String,
    frame: Vec<u8>,
    nanos: Vec<f64>,
    zero_nanos: Vec<f64>,
    /// Whether other programs kept the CPUs from it: they will in the next round, too.
    is_given_up: bool,
}

impl Bench<'_> {
    /// Measures the cases of `scenario` that `is_wanted` names, and adds them to `report`.
    pub fn measure(
        &self,
        scenario: &Scenario,
        is_wanted: impl Fn(&Case, &str) -> bool,
        report: &mut Report,
    ) -> Result<()> {
        let named = scenario.cases.iter();
        let named = named.map(|case| (case, scenario.name_of(case)));
        let mut running = vec![];
        for (case, name) in named.filter(|(case, name)| is_wanted(case, name)) {
            if case.traffic.cpus.count() <= cpu::count() {
                running.push(Running::new(case, name));
            } else {
                report.skip(format!("{name}: needs 2 CPUs"));
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        let measure = || {
            let installation = Installation::new(self.lab, scenario)?;
            let judged = |case: &Case| installation.packets(case.reason).map(Some);
            self.run(installation.program(), judged, running, report)
        };
        measure().with_context(|| format!("measuring {}", scenario.name))
    }

    /// Measures a program that judges nothing in named traffic, and adds that to `report`.
    pub fn measure_program(
        &self,
        program: &ProgramFd,
        named: &[(String, Traffic)],
        report: &mut Report,
    ) -> Result<()> {
        let cases: Vec<Case> = named.iter().map(|(_, it)| Case::new(*it, "")).collect();
        let named = cases.iter().zip(named);
        let running = named.map(|(case, (name, _))| Running::new(case, name.clone()));
        self.run(program, |_| Ok(None), running.collect(), report)
    }

    /// Measures the cases of a program. `judged` returns the packets with the verdict of a case,
    /// and all packets, since it was loaded.
    fn run(
        &self,
        program: &ProgramFd,
        judged: impl Fn(&Case) -> Result<Option<(u64, u64)>>,
        mut running: Vec<Running<'_>>,
        report: &mut Report,
    ) -> Result<()> {
        let mut zero = Harness::empty(self.object)?;
        let mut loaded = Harness::around(self.object, program)?;
        for case in &running {
            self.warm_up(&mut loaded, case)?;
        }
        for _ in 0..self.effort.rounds {
            for case in &mut running {
                self.round(case, &mut zero, &mut loaded, &judged)?;
            }
        }
        for case in running {
            let name = case.name.clone();
            match case.into_row() {
                Some(row) => report.add(row),
                None => report.skip(format!("{name}: other programs keep the CPUs busy")),
            }
        }
        Ok(())
    }

    /// The baseline, and then the case.
    fn round(
        &self,
        case: &mut Running<'_>,
        zero: &mut Harness,
        loaded: &mut Harness,
        judged: &impl Fn(&Case) -> Result<Option<(u64, u64)>>,
    ) -> Result<()> {
        if case.is_given_up {
            return Ok(());
        }
        let zero_nanos = self.run_once(zero, case, Some(XDP_PASS))?;
        let before = judged(case.case)?;
        let nanos = self.run_once(loaded, case, None)?;
        if let (Some(before), Some(after)) = (before, judged(case.case)?) {
            case.check(before, after)?;
        }
        if let (Some(zero_nanos), Some(nanos)) = (zero_nanos, nanos) {
            case.zero_nanos.push(zero_nanos);
            case.nanos.push(nanos);
        } else {
            case.is_given_up = true;
        }
        Ok(())
    }

    /// Sends packets of each source until its state is there, as far as there is room.
    fn warm_up(&self, loaded: &mut Harness, running: &Running<'_>) -> Result<()> {
        let packets = (running.case.traffic.sources.count() * WARM_UP)
            .min(u64::from(self.effort.packets) * 4);
        let packets = u32::try_from(packets)?.max(self.effort.packets / 10);
        draw(loaded, running.case.traffic)?;
        loaded
            .run(&running.frame, packets, running.case.traffic.cpus.count())
            .map(drop)
    }

    /// Nanoseconds of a packet, the mean of the CPUs; `None` when they had no time for it.
    #[expect(clippy::cast_precision_loss, reason = "a handful of CPUs")]
    fn run_once(
        &self,
        harness: &mut Harness,
        running: &Running<'_>,
        action: Option<u32>,
    ) -> Result<Option<f64>> {
        draw(harness, running.case.traffic)?;
        let Some(runs) = self.run_undisturbed(harness, running)? else {
            return Ok(None);
        };
        for run in &runs {
            ensure!(
                run.action != 0,
                "the harness could not call the program under test"
            );
            ensure!(
                action.is_none_or(|action| action == run.action),
                "the baseline answered {}",
                run.action
            );
        }
        let total: f64 = runs.iter().map(|run| run.nanos).sum();
        Ok(Some(
            total / runs.len() as f64 / f64::from(self.effort.packets),
        ))
    }

    /// Runs on all CPUs at once. If one of them was interrupted, the others had the state to
    /// themselves, and the run is repeated.
    fn run_undisturbed(
        &self,
        harness: &Harness,
        running: &Running<'_>,
    ) -> Result<Option<Vec<Run>>> {
        let cpus = running.case.traffic.cpus.count();
        for _ in 0..ATTEMPTS {
            let runs = harness.run(&running.frame, self.effort.packets, cpus)?;
            let is_undisturbed = runs
                .iter()
                .all(|run| run.waited_nanos <= run.nanos * WAITED_PART);
            if cpus == 1 || is_undisturbed {
                return Ok(Some(runs));
            }
        }
        Ok(None)
    }
}

/// Every run begins with another part of the sequence, so that a flood is a new one.
fn draw(harness: &mut Harness, traffic: Traffic) -> Result<()> {
    let start = fastrand::u64(..);
    harness.set_draws(|cpu| {
        let draw = traffic.draw(cpu);
        crate::draw::Draw {
            state: draw.state ^ start,
            ..draw
        }
    })
}

impl<'a> Running<'a> {
    fn new(case: &'a Case, name: String) -> Self {
        Self {
            case,
            name,
            frame: case.traffic.frame(),
            nanos: vec![],
            zero_nanos: vec![],
            is_given_up: false,
        }
    }

    /// Whether the packets of a run got the verdict that the case is about: a figure of anything
    /// else would mislead.
    #[expect(clippy::cast_precision_loss, reason = "millions")]
    fn check(&self, before: (u64, u64), after: (u64, u64)) -> Result<()> {
        let (expected, all) = (after.0 - before.0, after.1 - before.1);
        let part = expected as f64 / all as f64;
        ensure!(
            part >= EXPECTED_PART,
            "{}: of {all} packets {expected} were judged `{}`",
            self.name,
            self.case.reason
        );
        Ok(())
    }

    /// Its figures; `None` when the machine was too busy for any.
    fn into_row(self) -> Option<Row> {
        if self.is_given_up {
            return None;
        }
        let pairs = self.nanos.iter().zip(&self.zero_nanos);
        let ratios: Vec<_> = pairs.map(|(nanos, zero)| nanos / zero).collect();
        let is_alone = self.case.traffic.cpus == Cpus::One;
        Some(Row {
            name: self.name,
            sources: is_alone.then(|| self.case.traffic.sources.count()),
            nanos: Spread::of(&self.nanos)?,
            zero_nanos: Spread::of(&self.zero_nanos)?,
            ratio: Spread::of(&ratios)?,
            goal: None,
            goal_text: self.case.goal.as_ref().map(ToString::to_string),
        })
    }
}
