//! The first part: all sources of the plan at once, and what arrives of each.

use std::{
    iter,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

use super::{
    oracle,
    plan::{self, Flow},
    screen::{Screen, bar},
    sender,
    stage::Stage,
    tap::{Arrivals, Tap},
};

const REDRAW: Duration = Duration::from_millis(100);
/// How often a line is written where nothing can be redrawn.
const LINE: Duration = Duration::from_secs(1);

/// Sends, shows what arrives, and compares it with what the limits say.
pub fn run(stage: &mut Stage) -> Result<()> {
    let seconds = plan::DURATION.as_secs_f64();
    stage
        .screen
        .heading(&format!("All sources at once, for {seconds} s"));
    let board = Board::new();
    let brackets = thread::scope(|scope| {
        let sender =
            scope.spawn(|| sender::send(&stage.wire, &board.flows, plan::DURATION, &board.sent));
        show_until(&mut stage.screen, &stage.tap, &board, || {
            sender.is_finished()
        })?;
        let brackets = sender.join();
        brackets.map_err(|_| anyhow!("the sending thread panicked"))?
    })?;
    let arrivals = stage.tap.settled(&stage.wire)?;
    let marks: Vec<String> = iter::zip(&board.flows, &brackets)
        .map(|(flow, brackets)| {
            let arrived = arrivals.of(&flow.hosts);
            let answer = stage.figures.check(
                flow.source,
                &oracle::admitted(flow.packets_max(), brackets),
                arrived,
            );
            stage.screen.mark(&answer)
        })
        .collect();
    stage.screen.finish(&board.rows(&arrivals, &marks))?;
    Ok(())
}

fn show_until(
    screen: &mut Screen,
    tap: &Tap,
    board: &Board,
    is_finished: impl Fn() -> bool,
) -> Result<()> {
    let start = Instant::now();
    let mut next_line = LINE;
    while !is_finished() {
        let arrivals = tap.arrivals();
        if screen.is_live() {
            screen.redraw(&board.rows(&arrivals, &[]))?;
        } else if start.elapsed() >= next_line {
            let seconds = next_line.as_secs();
            println!("{seconds} s: {}", board.sums(&arrivals));
            next_line += LINE;
        }
        thread::sleep(REDRAW);
    }
    Ok(())
}

/// The flows, and what each has sent.
struct Board {
    flows: Vec<Flow>,
    sent: Vec<AtomicU64>,
}

impl Board {
    fn new() -> Self {
        let flows = plan::flows();
        let sent = flows.iter().map(|_| AtomicU64::new(0)).collect();
        Self { flows, sent }
    }

    /// A table, with marks at the ends of its lines when there are any.
    fn rows(&self, arrivals: &Arrivals, marks: &[String]) -> Vec<String> {
        let mut rows = vec![row(&[
            "SOURCE",
            "TRAFFIC",
            "LIMIT PER 1s",
            "SENT",
            "ARRIVED",
        ])];
        for (index, (flow, sent)) in iter::zip(&self.flows, &self.sent).enumerate() {
            let (sent, arrived) = (sent.load(Ordering::Relaxed), arrivals.of(&flow.hosts));
            let cells = row(&[
                flow.source,
                &flow.traffic(),
                &flow.allowance(),
                &sent.to_string(),
                &arrived.to_string(),
            ]);
            let mark = marks.get(index).map_or("", String::as_str);
            rows.push(format!("{cells}  {} {mark}", bar(arrived, sent)));
        }
        rows.push(self.sums(arrivals));
        rows
    }

    fn sums(&self, arrivals: &Arrivals) -> String {
        let sent: u64 = self
            .sent
            .iter()
            .map(|sent| sent.load(Ordering::Relaxed))
            .sum();
        let arrived: u64 = self.flows.iter().map(|flow| arrivals.of(&flow.hosts)).sum();
        format!("{sent} packets sent, {arrived} arrived")
    }
}

fn row(cells: &[&str; 5]) -> String {
    let [source, traffic, limit, sent, arrived] = cells;
    format!("{source:<15}  {traffic:<19}  {limit:<12} {sent:>5} {arrived:>7}")
}
