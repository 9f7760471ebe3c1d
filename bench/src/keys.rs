//! Measures limits of keys: decisions of `ratelimitd` beside those of nginx, `HAProxy` and Redis.
//!
//! Clients run on CPU 0, and one limiter at a time on CPU 1: they take turns in each round, so that
//! other load on the machine affects all of them. No request of a turn is refused.

mod limiters;
mod load;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ratelimit_tests::cpu;

use crate::{
    harness::come_first,
    machine::{Machine, cpu_seconds},
    statistics::Spread,
    table::{self, Cell},
    wrk::Wrk,
};
use limiters::{BATCH, Kind, Limiters};

/// The duration of a measurement.
const TURN: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
const CONNECTIONS: usize = 16;

/// The goals: decisions per second of a CPU in batches and singly, and the milliseconds within
/// which 99 % of the answers come at half of that.
const BATCHED: f64 = 100_000.0;
const SINGLE: f64 = 25_000.0;
const SLOWEST: f64 = 1.0;

/// The figures of a limiter. Each vector has an element per round.
struct Row {
    kind: Kind,
    per_second: Vec<f64>,
    per_cpu_second: Vec<f64>,
    /// The decisions per CPU second as a multiple of those of nginx.
    of_nginx: Vec<f64>,
    /// The milliseconds of the slowest but 1 % at half of the goal.
    slowest: Vec<f64>,
}

/// Measures, and prints a table.
pub fn measure(rounds: Option<usize>) -> Result<()> {
    ensure!(
        cpu::count() >= 2,
        "this needs a CPU for clients and one for limiters"
    );
    // So do the limiters, which inherit it.
    come_first()?;
    let limiters = Limiters::new()?;
    let wrk = Wrk::new(&limiters::wrk_script())?;
    let mut rows = Kind::ALL.map(Row::new);
    let rounds = rounds.unwrap_or(ROUNDS);
    for _ in 0..rounds {
        let mut nginx = None;
        for row in &mut rows {
            let (kind, pid) = (row.kind, limiters.pid(row.kind)?);
            let before = cpu_seconds(pid)?;
            let (answers, per_second) = if let Some(url) = kind.url() {
                let pages = wrk.ask(&limiters.lab.near, CONNECTIONS, TURN, &url)?;
                (pages.served, pages.per_second)
            } else {
                let load = load::ask(&limiters, kind, None)?;
                (load.answers, load.per_second)
            };
            let per_cpu_second = answers * kind.decisions() / (cpu_seconds(pid)? - before);
            let half = kind.goal() / 2.0 / kind.decisions();
            let slowest = load::ask(&limiters, kind, Some(half))?.slowest;
            row.per_second.push(per_second * kind.decisions());
            row.per_cpu_second.push(per_cpu_second);
            let nginx = *nginx.get_or_insert(per_cpu_second);
            row.of_nginx.push(per_cpu_second / nginx);
            row.slowest.push(slowest);
        }
    }
    let cells: Option<Vec<_>> = rows.iter().map(Row::cells).collect();
    let cells = cells.context("no round was measured")?.into_iter();
    let cells: Vec<_> = cells.flatten().collect();
    println!(
        "{}: medians of {rounds} rounds, of decisions in thousands\n\n{}",
        Machine::this()?,
        table::pivot("limiter", &cells)
    );
    Ok(())
}

impl Kind {
    /// Returns the decisions of an answer.
    fn decisions(self) -> f64 {
        match self {
            Self::Batches => f64::from(BATCH),
            _ => 1.0,
        }
    }

    /// Returns the decisions per CPU second that a limiter is to reach. The others are asked half
    /// as often, too.
    const fn goal(self) -> f64 {
        match self {
            Self::Batches => BATCHED,
            _ => SINGLE,
        }
    }
}

impl Row {
    const fn new(kind: Kind) -> Self {
        Self {
            kind,
            per_second: vec![],
            per_cpu_second: vec![],
            of_nginx: vec![],
            slowest: vec![],
        }
    }

    fn cells(&self) -> Option<Vec<Cell>> {
        let cell = |column: &str, text| Cell {
            row: self.kind.label().to_owned(),
            column: column.to_owned(),
            text,
        };
        let goal = |is_reached| self.kind.is_ours().then_some(is_reached);
        let per_second = Spread::of(&self.per_second)?.median / 1e3;
        let per_cpu_second = Spread::of(&self.per_cpu_second)?;
        let is_fast = goal(per_cpu_second.median >= self.kind.goal());
        let slowest = Spread::of(&self.slowest)?;
        let is_prompt = goal(slowest.median < SLOWEST);
        Some(vec![
            cell("per second", format!("{per_second:.1}")),
            cell(
                "per CPU second",
                table::figure(per_cpu_second.scaled(1e-3), is_fast),
            ),
            cell("of nginx", table::figure(Spread::of(&self.of_nginx)?, None)),
            cell(
                "p99 at half the goal, ms",
                table::figure(slowest, is_prompt),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_marks_the_goals_that_are_missed() {
        let row = |kind, per_cpu_second, slowest| {
            let row = Row {
                per_second: vec![40_000.0],
                per_cpu_second: vec![per_cpu_second],
                of_nginx: vec![0.5],
                slowest: vec![slowest],
                ..Row::new(kind)
            };
            let cells = row.cells().unwrap();
            cells.into_iter().map(|it| it.text).collect::<Vec<_>>()
        };
        let [missed, reached, other] = [
            row(Kind::Batches, 99_000.0, 1.0),
            row(Kind::ForwardAuth, 25_000.0, 0.9),
            row(Kind::Nginx, 1_000.0, 9.0),
        ];
        assert_eq!(
            missed[1..],
            [
                "99.00* (99.00-99.00)",
                "0.50 (0.50-0.50)",
                "1.00* (1.00-1.00)"
            ]
        );
        assert_eq!(reached[..2], ["40.0", "25.00 (25.00-25.00)"]);
        assert_eq!(other[3], "9.00 (9.00-9.00)");
    }
}
