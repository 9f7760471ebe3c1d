//! Measures what users of a web server and of a DNS server get during floods, by contender.
//!
//! All take turns: in each round of a flood, each contender serves the users for a while, after a
//! turn without flood and limiter. Figures are relative to that turn, so that other load on the
//! machine affects all of them.

mod captured;
mod contender;
mod flood;
mod plot;
mod servers;
mod users;

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use jiff::Timestamp;

use crate::{
    arguments::Arguments,
    document::{self, Markers},
    harness,
    machine::{self, Machine},
    statistics::Spread,
    table,
};
use captured::Captured;
use contender::{Contender, Kind};
use flood::{Flood, Sender};
use users::Served;

const TURN: Duration = Duration::from_secs(2);
/// The lead time of a flood.
const BEFORE: Duration = Duration::from_millis(500);
const ROUNDS: usize = 3;

/// The goal: the part of the traffic without a flood.
pub const GOAL: f64 = 0.9;
/// The usual difference between two turns.
const CLOSE: f64 = 0.03;

const MARKERS: Markers = [
    "<!-- goodput: written by `cargo xtask goodput --write` -->\n",
    "<!-- end of goodput -->\n",
];

/// A contender in a flood.
pub struct Row {
    flood: Flood,
    kind: Kind,
    /// For each round: the web traffic of users as a part of that without a flood and limiter, and
    /// the same for DNS.
    parts: [Vec<f64>; 2],
    /// For each round: how long users of the web waited that were served, a half of them and 99 %,
    /// in milliseconds.
    waits: [Vec<f64>; 2],
    /// For each round: how many CPUs were busy, with servers, users and flood.
    cpus: Vec<f64>,
    /// For each round: packets of the flood in a second.
    per_second: Vec<f64>,
}

/// Measures, prints a table, and writes it where that is wanted.
pub fn measure(object: &[u8], arguments: &Arguments) -> Result<()> {
    let mut floods = Flood::ALL.to_vec();
    floods.retain(|flood| arguments.wants(true, flood.label()));
    ensure!(!floods.is_empty(), "no flood has such a name");
    let captured = if floods.contains(&Flood::Captured) {
        Captured::read()?
    } else {
        None
    };
    floods.retain(|flood| *flood != Flood::Captured || captured.is_some());
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    // Servers, users and floods too, which are made by this thread: what else this machine does is
    // no part of a figure.
    harness::come_first()?;
    let mut sender = Sender::new(object, captured)?;
    let contenders = Kind::ALL.map(|kind| {
        Contender::new(kind, object).with_context(|| format!("setting {} up", kind.label()))
    });
    let contenders = contenders.into_iter().collect::<Result<Vec<_>>>()?;
    for contender in &contenders {
        contender.users.ask(&contender.lab.far, TURN)?;
    }
    let mut rows = vec![];
    for flood in floods {
        let of_flood = contenders.iter();
        let mut of_flood: Vec<_> = of_flood.map(|it| Row::new(flood, it.kind)).collect();
        for _ in 0..rounds {
            let first = contenders.first().context("nobody")?;
            let base = turn(&mut sender, first, Flood::None)?.served;
            ensure!(
                base.per_second.iter().all(|count| *count > 0.0),
                "nobody is served without a flood"
            );
            for (row, contender) in of_flood.iter_mut().zip(&contenders) {
                row.add(&base, &turn(&mut sender, contender, flood)?);
            }
        }
        for row in &of_flood {
            eprintln!("{}", row.line(&of_flood).unwrap_or_default().join(" "));
        }
        rows.extend(of_flood);
    }
    let text = render(&rows)?;
    println!("{text}");
    if arguments.write {
        plot::draw(&rows, &document::docs().join("goodput.svg"))?;
        let date = Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
        let machine = Machine::this()?;
        document::write_between(
            "performance.md",
            MARKERS,
            &format!(
                "Measured on {date} ({machine}) by `cargo xtask goodput`: medians of {rounds} \
                 rounds.\n\n\
                 ![What users get during floods](goodput.svg)\n\n\
                 {text}"
            ),
        )?;
    }
    Ok(())
}

/// The results of a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    served: Served,
    cpus: f64,
    per_second: f64,
}

/// Users ask, while a flood comes.
fn turn(sender: &mut Sender, contender: &Contender, flood: Flood) -> Result<Turn> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooding = scope.spawn(|| sender.flood(&contender.lab, flood, &is_over));
        thread::sleep(BEFORE);
        let (start, busy) = (Instant::now(), machine::busy()?);
        let served = contender.users.ask(&contender.lab.far, TURN);
        let cpus = machine::busy()?.saturating_sub(busy);
        let cpus = cpus.as_secs_f64() / start.elapsed().as_secs_f64();
        is_over.store(true, Relaxed);
        let flooded = flooding.join();
        Ok(Turn {
            served: served?,
            cpus,
            per_second: flooded.map_err(|_| anyhow!("the flood has panicked"))??,
        })
    })
}

impl Row {
    fn new(flood: Flood, kind: Kind) -> Self {
        Self {
            flood,
            kind,
            parts: Default::default(),
            waits: Default::default(),
            cpus: vec![],
            per_second: vec![],
        }
    }

    fn add(&mut self, base: &Served, turn: &Turn) {
        let served = turn.served;
        for (kind, parts) in self.parts.iter_mut().enumerate() {
            parts.push(served.per_second[kind] / base.per_second[kind]);
        }
        if served.per_second[0] > 0.0 {
            for (waits, wait) in self.waits.iter_mut().zip(served.waits) {
                waits.push(wait);
            }
        }
        self.cpus.push(turn.cpus);
        self.per_second.push(turn.per_second);
    }

    /// Returns the traffic of users, for the web and DNS.
    fn spreads(&self) -> Option<[Spread; 2]> {
        let [web, queries] = &self.parts;
        Some([Spread::of(web)?, Spread::of(queries)?])
    }

    /// Returns whether users get most of their traffic without a flood, and no other limiter gives
    /// them more in all rounds.
    fn is_reached(&self, of_flood: &[Self]) -> Option<bool> {
        let ours = self.spreads()?;
        let is_behind = |row: &Self| {
            let theirs = row.spreads()?;
            Some((0..2).any(|kind| theirs[kind].min > ours[kind].max + CLOSE))
        };
        let mut rivals = of_flood.iter().filter(|row| row.kind.is_rival());
        Some(
            ours.iter().all(|part| part.median >= GOAL)
                && !rivals.any(|row| is_behind(row) == Some(true)),
        )
    }

    fn line(&self, of_flood: &[Self]) -> Option<Vec<String>> {
        let mut line = vec![self.flood.label().to_owned(), self.kind.label().to_owned()];
        for part in self.spreads()? {
            line.push(format!("{:.2}", part.median));
            line.push(format!("{:.2}-{:.2}", part.min, part.max));
        }
        let [median, most] = &self.waits;
        for figures in [median, most, &self.cpus] {
            let spread = Spread::of(figures);
            line.push(spread.map_or_else(String::new, |it| format!("{:.1}", it.median)));
        }
        line.push(format!("{:.0}", Spread::of(&self.per_second)?.median / 1e3));
        let is_reached = self.kind.is_ours().then(|| self.is_reached(of_flood));
        line.push(table::mark(is_reached.flatten()));
        Some(line)
    }
}

fn render(rows: &[Row]) -> Result<String> {
    let heads = [
        "flood", "through", "web", "spread", "DNS", "spread", "50 % ms", "99 % ms", "CPUs", "kpps",
        "goal",
    ];
    let of_one = |one: &Row, other: &Row| one.flood == other.flood;
    let lines = rows.chunk_by(of_one);
    let lines = lines.flat_map(|of_flood| of_flood.iter().map(|row| row.line(of_flood)));
    let lines: Option<Vec<_>> = lines.collect();
    Ok(table::table(
        &heads,
        &lines.context("no round was measured")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_parts_of_what_users_get_without_a_flood() {
        let row = row(Kind::Challenge, [0.4, 0.2, 0.8]);
        let [web, _] = row.spreads().unwrap();
        assert_eq!((web.min, web.median, web.max), (0.4, 0.8, 1.6));
    }

    #[test]
    fn the_goal_is_reached_by_who_serves_most_and_is_not_behind() {
        let ours = |parts| row(Kind::Challenge, parts);
        let rival = || row(Kind::Nftables, [0.49, 0.5, 0.6]);
        check(&ours([0.45; 3]), &[], true);
        check(&ours([0.44; 3]), &[], false);
        check(&ours([0.45; 3]), &[rival()], false);
        check(&ours([0.45, 0.45, 0.49]), &[rival()], true);
        check(&ours([0.45; 3]), &[row(Kind::Control, [0.5; 3])], true);
    }

    fn check(ours: &Row, others: &[Row], expected: bool) {
        assert_eq!(ours.is_reached(others), Some(expected));
    }

    /// Half of the traffic is all of it, without a flood.
    fn row(kind: Kind, parts: [f64; 3]) -> Row {
        let served = |part| Served {
            per_second: [part; 2],
            ..Served::default()
        };
        let mut row = Row::new(Flood::Syn, kind);
        for part in parts {
            let turn = Turn {
                served: served(part),
                ..Turn::default()
            };
            row.add(&served(0.5), &turn);
        }
        row
    }
}
