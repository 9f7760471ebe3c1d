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
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use jiff::Timestamp;

use crate::{
    arguments::Arguments,
    document::{self, Markers},
    harness,
    machine::Machine,
    statistics::Spread,
    table::{self, Cell},
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
    /// For each round: how long 99 % of the users of the web waited at most that were served, in
    /// milliseconds.
    waits: Vec<f64>,
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
            for cell in row.cells(&of_flood).into_iter().flatten() {
                eprintln!("{}, {}: {}", cell.row, cell.column, cell.text);
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
    per_second: f64,
}

/// Users ask, while a flood comes.
fn turn(sender: &mut Sender, contender: &Contender, flood: Flood) -> Result<Turn> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooding = scope.spawn(|| sender.flood(&contender.lab, flood, &is_over));
        thread::sleep(BEFORE);
        let served = contender.users.ask(&contender.lab.far, TURN);
        is_over.store(true, Relaxed);
        let flooded = flooding.join();
        Ok(Turn {
            served: served?,
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
            waits: vec![],
            per_second: vec![],
        }
    }

    fn add(&mut self, base: &Served, turn: &Turn) {
        let served = turn.served;
        for (kind, parts) in self.parts.iter_mut().enumerate() {
            parts.push(served.per_second[kind] / base.per_second[kind]);
        }
        if served.per_second[0] > 0.0 {
            self.waits.push(served.wait);
        }
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

    /// Returns the flood with the rates that came through the contenders, in thousands a second.
    fn flood_with_rates(of_flood: &[Self]) -> Option<String> {
        let [first, ..] = of_flood else { return None };
        let rate = |row: &Self| Some(Spread::of(&row.per_second)?.median / 1e3);
        let rates: Option<Vec<_>> = of_flood.iter().map(rate).collect();
        let Spread { min, max, .. } = Spread::of(&rates?)?;
        let rates = match (format!("{min:.0}"), format!("{max:.0}")) {
            (least, most) if least == most => most,
            (least, most) => format!("{least}-{most}"),
        };
        Some(format!("{} ({rates} kpps)", first.flood.label()))
    }

    /// Returns how many web requests and DNS queries of users were answered, and how long 99 % of
    /// the users of the web waited at most.
    fn cells(&self, of_flood: &[Self]) -> Option<[Cell; 3]> {
        let cell = |row: &str, text| Cell {
            row: row.to_owned(),
            column: self.kind.label().to_owned(),
            text,
        };
        let flood = self.flood.label();
        let [web, queries] = self.spreads()?;
        let is_reached = self.kind.is_ours().then(|| self.is_reached(of_flood));
        let wait =
            Spread::of(&self.waits).map_or_else(String::new, |it| format!("{:.1}", it.median));
        Some([
            cell(
                &Self::flood_with_rates(of_flood)?,
                table::figure(web, is_reached.flatten()),
            ),
            cell(flood, format!("{:.2}", queries.min)),
            cell(flood, wait),
        ])
    }
}

fn render(rows: &[Row]) -> Result<String> {
    let of_one = |one: &Row, other: &Row| one.flood == other.flood;
    let floods = rows.chunk_by(of_one);
    let cells = floods.flat_map(|of_flood| of_flood.iter().map(|row| row.cells(of_flood)));
    let cells: Option<Vec<_>> = cells.collect();
    let (mut web, mut queries, mut waits) = (vec![], vec![], vec![]);
    for [of_web, of_queries, of_waits] in cells.context("no round was measured")? {
        web.push(of_web);
        queries.push(of_queries);
        waits.push(of_waits);
    }
    Ok(format!(
        "Web requests answered, as a part of those without a flood and limiter:\n\n\
         {}\n\
         {}\n\
         Milliseconds in which 99 % of the web requests were answered:\n\n\
         {}",
        table::pivot("flood", &web),
        of_queries(rows, &queries),
        table::pivot("flood", &waits),
    ))
}

/// A sentence about the DNS queries if nearly all were answered, a table otherwise.
fn of_queries(rows: &[Row], cells: &[Cell]) -> String {
    let parts = rows.iter().flat_map(|row| &row.parts[1]);
    let least = parts.copied().fold(f64::MAX, f64::min);
    if least >= GOAL {
        return format!("At least {least:.2} of the DNS queries were answered in every round.\n");
    }
    format!(
        "DNS queries answered, in the worst round:\n\n{}",
        table::pivot("flood", cells)
    )
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
