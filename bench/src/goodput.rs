//! Measures which flood a web server withstands, by limiter.
//!
//! CPU 0 is the world: the flood, and users who ask for the next page as soon as they have the last
//! one. CPU 1 is the host: receive processing, limiter and servers. The flood is raised until users
//! get half of the pages that they get without flood and limiter. That rate is the break point.
//!
//! All limiters take turns: a round of a flood finds the break point of each once, so that other
//! load on the machine affects all of them.

mod captured;
mod contender;
mod flood;
mod plot;
mod search;
mod servers;
mod users;

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use jiff::Timestamp;
use ratelimit_tests::cpu;

use crate::{
    arguments::Arguments,
    document::{self, Markers},
    machine::{self, Machine},
    placement,
    statistics::Spread,
    table::{self, Cell},
    wrk::Pages,
};
use contender::{Contender, Kind};
use flood::{Flood, Sender};
use search::BreakPoint;

/// How long users are served at a rate of the flood: twice as long as a lost SYN waits (RFC 6298,
/// 2.1), so that its second try counts.
const TURN: Duration = Duration::from_secs(2);
/// The lead time of a flood.
const BEFORE: Duration = Duration::from_millis(200);
const ROUNDS: usize = 3;
/// The part of its CPU that a flood may cost the host at the first rate that is tried.
const HOST_PART: f64 = 0.3;
/// The rate of the flood, in packets per second, whose cost to the host is measured without users.
const PACED: f64 = 200_000.0;

/// The goals, as multiples of the break point without a limiter: against sources that send too
/// much, and with the challenge against forged SYNs; and in every other flood.
pub const GOAL: f64 = 4.0;
const NEVER_BELOW: f64 = 1.0;

const MARKERS: Markers = [
    "<!-- goodput: written by `cargo xtask goodput --write` -->\n",
    "<!-- end of goodput -->\n",
];

/// A contender in a flood. Each vector has an element per round.
pub struct Row {
    flood: Flood,
    kind: Kind,
    points: Vec<BreakPoint>,
    /// The break point as a multiple of that without a limiter.
    ratios: Vec<f64>,
    /// The pages at the break point without a limiter, as a part of those without a flood.
    kept: Vec<f64>,
    /// The longest wait of 99 % of these pages, in milliseconds.
    waits: Vec<f64>,
    /// CPU seconds of the host per million packets of the flood, without users.
    cpu_seconds: Vec<f64>,
}

/// Measures, prints a table, and writes it if requested.
pub fn measure(object: &[u8], arguments: &Arguments) -> Result<()> {
    ensure!(
        cpu::count() >= 2,
        "this needs a CPU for the flood and one for the host"
    );
    let mut floods = Flood::ALL.to_vec();
    floods.retain(|flood| arguments.wants(true, flood.label()));
    ensure!(!floods.is_empty(), "no flood has such a name");
    let captured = if floods.contains(&Flood::Captured) {
        captured::read()?
    } else {
        None
    };
    floods.retain(|flood| *flood != Flood::Captured || captured.is_some());
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let mut sender = Sender::new(object, captured.as_deref())?;
    let checkout = arguments.xdp_firewall.as_deref();
    let contenders = contenders(object, checkout)?;
    let [first, ..] = &contenders[..] else {
        return Err(anyhow!("there is no contender"));
    };
    let (mut rows, mut bases) = (vec![], vec![]);
    for flood in floods {
        let mut of_flood: Vec<_> = contenders
            .iter()
            .map(|it| Row::new(flood, it.kind))
            .collect();
        for _ in 0..rounds {
            let mut unlimited = None;
            for (row, contender) in of_flood.iter_mut().zip(&contenders) {
                let pages = turn(&mut sender, first, flood, 0.0)?.pages.per_second;
                ensure!(pages > 0.0, "no page is served without a flood");
                bases.push(pages);
                let base = Spread::of(&bases).map_or(pages, |bases| bases.median);
                let seconds = cost(&mut sender, contender, flood)?;
                let mut ask = |rate| {
                    let turn = turn(&mut sender, contender, flood, rate)?;
                    Ok((turn.sent, turn.pages.per_second / base))
                };
                let point = search::search(HOST_PART / seconds * 1e6, &mut ask)?;
                let unlimited = *unlimited.get_or_insert(point.rate());
                let there = turn(&mut sender, contender, flood, unlimited)?;
                row.points.push(point);
                row.ratios.push(point.rate() / unlimited);
                row.kept.push(there.pages.per_second / base);
                row.waits.extend(there.pages.slowest);
                row.cpu_seconds.push(seconds);
                eprintln!(
                    "{}: {}: {point}, {seconds:.2} s/M ({pages:.0} pages/s without a flood)",
                    flood.label(),
                    contender.kind.label()
                );
            }
        }
        rows.extend(of_flood);
    }
    let text = render(&rows)?;
    println!("{text}");
    if arguments.write {
        plot::draw(&rows, &document::docs().join("goodput.svg"))?;
        let date = Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
        let machine = Machine::this()?;
        let others = checkout.map_or_else(String::new, |checkout| {
            format!(" With {}.", crate::live::xdp_firewall::version(checkout))
        });
        document::write_between(
            "performance.md",
            MARKERS,
            &format!(
                "Measured on {date} ({machine}) by `cargo xtask goodput`: medians of {rounds} \
                 rounds.{others}\n\n\
                 ![Floods that a web server withstands](goodput.svg)\n\n\
                 {text}"
            ),
        )?;
    }
    Ok(())
}

/// Sets the contenders up. The first one is that without a limiter.
fn contenders(object: &[u8], checkout: Option<&Path>) -> Result<Vec<Contender>> {
    let mut kinds = Kind::ALL.to_vec();
    kinds.retain(|kind| *kind != Kind::XdpFirewall || checkout.is_some());
    let contenders = kinds.into_iter().map(|kind| {
        Contender::new(kind, object, checkout)
            .with_context(|| format!("setting {} up", kind.label()))
    });
    contenders.collect()
}

/// The results of a turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    pages: Pages,
    /// The packets of the flood per second.
    sent: f64,
}

/// Users ask for pages while a flood arrives at this rate.
fn turn(sender: &mut Sender, contender: &Contender, flood: Flood, rate: f64) -> Result<Turn> {
    let (pages, sent) = during(sender, contender, flood, rate, || {
        contender.users.ask(&contender.lab.far, TURN)
    })?;
    Ok(Turn { pages, sent })
}

/// Returns the CPU seconds of the host per million packets of a flood.
fn cost(sender: &mut Sender, contender: &Contender, flood: Flood) -> Result<f64> {
    let (busy, sent) = during(sender, contender, flood, PACED, || {
        let (start, before) = (Instant::now(), machine::idle(placement::HOST)?);
        thread::sleep(TURN);
        let idle = machine::idle(placement::HOST)?.saturating_sub(before);
        Ok(start.elapsed().saturating_sub(idle))
    })?;
    Ok(busy.as_secs_f64() / (sent * TURN.as_secs_f64()) * 1e6)
}

/// Does something while a flood arrives, and returns the rate of the flood too.
fn during<T>(
    sender: &mut Sender,
    contender: &Contender,
    flood: Flood,
    rate: f64,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, f64)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooding = scope.spawn(|| sender.flood(&contender.lab, flood, rate, &is_over));
        thread::sleep(BEFORE);
        let result = work();
        is_over.store(true, Relaxed);
        let sent = flooding
            .join()
            .map_err(|_| anyhow!("the flood has panicked"))??;
        Ok((result?, sent))
    })
}

impl Row {
    fn new(flood: Flood, kind: Kind) -> Self {
        Self {
            flood,
            kind,
            points: vec![],
            ratios: vec![],
            kept: vec![],
            waits: vec![],
            cpu_seconds: vec![],
        }
    }

    /// The goal of a limiter of ours.
    fn goal(&self) -> Option<f64> {
        match (self.kind, self.flood) {
            (Kind::Challenge, Flood::Syn | Flood::Captured)
            | (Kind::Ratelimit(_), Flood::Loud(_)) => Some(GOAL),
            (Kind::Challenge | Kind::Ratelimit(_), _) => Some(NEVER_BELOW),
            _ => None,
        }
    }

    /// Returns the break point, what users get at that of no limiter, and the cost of the flood.
    fn cells(&self) -> Option<[Cell; 2]> {
        let cell = |text| Cell {
            row: self.flood.label().to_owned(),
            column: self.kind.label().to_owned(),
            text,
        };
        let rates: Vec<f64> = self.points.iter().map(BreakPoint::rate).collect();
        let ratio = Spread::of(&self.ratios)?;
        let is_reached = self.goal().map(|goal| ratio.median >= goal);
        let is_above = self.points.iter().any(BreakPoint::is_above);
        let point = if self.kind == Kind::NoLimiter {
            format!("{:.2} Mpps", Spread::of(&rates)?.median / 1e6)
        } else {
            table::figure(ratio, is_reached)
        };
        let mark = if is_above { "> " } else { "" };
        let wait = Spread::of(&self.waits);
        let there = format!(
            "{:.2}/{}/{:.1}",
            Spread::of(&self.kept)?.median,
            wait.map_or_else(|| "-".to_owned(), |it| format!("{:.0}", it.median)),
            Spread::of(&self.cpu_seconds)?.median
        );
        Some([cell(format!("{mark}{point}")), cell(there)])
    }
}

fn render(rows: &[Row]) -> Result<String> {
    let cells: Option<Vec<_>> = rows.iter().map(Row::cells).collect();
    let (mut points, mut there) = (vec![], vec![]);
    for [at_point, at_unlimited] in cells.context("no round was measured")? {
        points.push(at_point);
        there.push(at_unlimited);
    }
    Ok(format!(
        "The break point, as a multiple of that of no limiter in the same round:\n\n\
         {}\n\
         At the break point of no limiter: the part of the pages that users get, the milliseconds \
         in which 99 % of them come, and the CPU seconds of the host per million packets of the \
         flood (at 200,000 per second, without users; 5.0 are all of its CPU):\n\n\
         {}",
        table::pivot("flood", &points),
        table::pivot("flood", &there),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_the_median_of_its_rounds_and_marks_a_missed_goal() {
        let point = |kind, rates: [f64; 3]| {
            let mut row = Row::new(Flood::Syn, kind);
            for rate in rates {
                row.points.push(BreakPoint::At(rate * 1e5));
                row.ratios.push(rate);
                row.kept.push(0.5);
                row.cpu_seconds.push(1.0);
            }
            let [point, ..] = row.cells().unwrap();
            point.text
        };
        let ours = |rates| point(Kind::Challenge, rates);
        assert_eq!(ours([4.0, 3.0, 9.0]), "4.00 (3.00-9.00)");
        assert_eq!(ours([3.8, 3.0, 9.0]), "3.80* (3.00-9.00)");
        let rival = point(Kind::Nftables, [0.5, 0.4, 0.9]);
        assert_eq!(rival, "0.50 (0.40-0.90)");
        let none = point(Kind::NoLimiter, [1.0, 1.5, 2.0]);
        assert_eq!(none, "0.15 Mpps");
    }
}
