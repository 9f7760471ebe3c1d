//! What users of a web server and of a DNS server get while floods come, by who stands between.
//!
//! All take turns: in each round of a flood each contender serves the users for a while, after nobody did with no flood. Figures are
//! parts of that, so what else the machine does meanwhile is in all of them.

mod captured;
mod client;
mod contender;
mod flood;
mod plot;
mod servers;

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
    table,
};
use captured::Captured;
use client::Served;
use contender::{Contender, Kind};
use flood::{Flood, Sender, Sent};

/// How long users ask.
const TURN: Duration = Duration::from_secs(2);
/// How long a flood comes before.
const BEFORE: Duration = Duration::from_millis(500);
const ROUNDS: usize = 5;

/// Of what users get without a flood, so much they are to get in one.
pub const GOAL: f64 = 0.9;

const MARKERS: Markers = [
    "<!-- goodput: written by `cargo xtask goodput --write` -->\n",
    "<!-- end of goodput -->\n",
];

/// A contender in a flood.
#[derive(Default)]
pub struct Row {
    flood: &'static str,
    contender: &'static str,
    /// For each round: what users got of the web, as a part of what they got without a flood and limiter, and the same of DNS.
    parts: [Vec<f64>; 2],
    /// For each round and quantile: how long users of the web waited, in milliseconds.
    waits: [Vec<f64>; 2],
    cpu: Vec<f64>,
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
    // Servers and users too, which are made by this thread: what else this machine does is no part of a figure.
    harness::come_first()?;
    let mut sender = Sender::new(object, captured)?;
    let contenders = Kind::ALL.map(|kind| {
        Contender::new(kind, object).with_context(|| format!("setting {} up", kind.label()))
    });
    let contenders = contenders.into_iter().collect::<Result<Vec<_>>>()?;
    for contender in &contenders {
        client::ask(&contender.lab.far, TURN)?;
    }
    let mut rows = vec![];
    for flood in floods {
        let new = |contender: &Contender| Row {
            flood: flood.label(),
            contender: contender.kind.label(),
            ..Row::default()
        };
        let mut of_flood: Vec<_> = contenders.iter().map(new).collect();
        for _ in 0..rounds {
            let (base, _) = turn(
                &mut sender,
                contenders.first().context("nobody")?,
                Flood::None,
            )?;
            ensure!(
                base.iter().all(|served| served.part > 0.0),
                "nobody is served without a flood"
            );
            for (row, contender) in of_flood.iter_mut().zip(&contenders) {
                let (served, sent) = turn(&mut sender, contender, flood)?;
                row.add(&base, &served, sent);
            }
        }
        for row in &of_flood {
            eprintln!("{}", row.line().unwrap_or_default().join(" "));
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
            MARKERS,
            &format!(
                "Measured on {date} ({machine}) by `cargo xtask goodput`: medians of {rounds} rounds.\n\n\
                 ![What users get during floods](goodput.svg)\n\n{text}"
            ),
        )?;
    }
    Ok(())
}

/// Users ask, while a flood comes.
fn turn(sender: &mut Sender, contender: &Contender, flood: Flood) -> Result<([Served; 2], Sent)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooding = scope.spawn(|| sender.flood(&contender.lab, flood, &is_over));
        thread::sleep(BEFORE);
        let served = client::ask(&contender.lab.far, TURN);
        is_over.store(true, Relaxed);
        let sent = flooding
            .join()
            .map_err(|_| anyhow!("the flood has panicked"))??;
        Ok((served?, sent))
    })
}

impl Row {
    fn add(&mut self, base: &[Served; 2], served: &[Served; 2], sent: Sent) {
        for ((parts, served), base) in self.parts.iter_mut().zip(served).zip(base) {
            parts.push(served.part / base.part);
        }
        for (waits, part) in self.waits.iter_mut().zip([0.5, 0.99]) {
            waits.extend(served[0].quantile(part));
        }
        self.cpu.push(sent.cpu);
        self.per_second.push(sent.per_second);
    }

    /// What users got, of the web and of DNS: the medians.
    fn medians(&self) -> Option<[f64; 2]> {
        let [web, queries] = &self.parts;
        Some([Spread::of(web)?.median, Spread::of(queries)?.median])
    }

    fn line(&self) -> Option<Vec<String>> {
        let mut line = vec![self.flood.to_owned(), self.contender.to_owned()];
        for parts in &self.parts {
            let spread = Spread::of(parts)?;
            line.push(format!("{:.2}", spread.median));
            line.push(format!("{:.2}-{:.2}", spread.min, spread.max));
        }
        for waits in &self.waits {
            line.push(Spread::of(waits).map_or_else(String::new, |it| format!("{:.1}", it.median)));
        }
        line.push(format!("{:.2}", Spread::of(&self.cpu)?.median));
        line.push(format!("{:.0}", Spread::of(&self.per_second)?.median / 1e3));
        let is_ours = self.contender.starts_with("ratelimit");
        let is_reached = is_ours.then(|| self.medians().map(|it| it.iter().all(|it| *it >= GOAL)));
        line.push(table::mark(is_reached.flatten()));
        Some(line)
    }
}

fn render(rows: &[Row]) -> Result<String> {
    let heads = [
        "flood", "through", "web", "spread", "DNS", "spread", "50 % ms", "99 % ms", "CPU", "kpps",
        "goal",
    ];
    let lines: Option<Vec<_>> = rows.iter().map(Row::line).collect();
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
        let served = |part| {
            [0; 2].map(|_| Served {
                part,
                ..Served::default()
            })
        };
        let mut row = Row {
            contender: Kind::Challenge.label(),
            ..Row::default()
        };
        for part in [0.4, 0.2, 0.8] {
            row.add(&served(0.5), &served(part), Sent::default());
        }
        assert_eq!(row.medians(), Some([0.8, 0.8]));
        let line = row.line().unwrap();
        assert_eq!([&line[3], &line[6], &line[10]], ["0.40-1.60", "", "missed"]);
    }
}
