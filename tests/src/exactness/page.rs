//! Tables of the measured exactness.

use super::{Cell, Clock, Row, increments::Increments};
use crate::table::{Table, grouped};

/// The table of the cells of one clock.
pub fn table(clock: Clock, measured: &[(Cell, Row)]) -> Table {
    let mut headings = vec![
        "algorithm",
        "CPUs",
        "arrivals",
        "load",
        "sent",
        "admitted",
        "oracle",
        "difference",
        "over-admitted",
        "wrongly refused",
    ];
    headings.push(match clock {
        Clock::Virtual => "contended",
        Clock::Real => "undecided",
    });
    let mut table = Table::new(&headings);
    for (cell, row) in measured.iter().filter(|(cell, _)| cell.clock == clock) {
        let mut cells = cell_names(cell).to_vec();
        cells.extend([row.sent, row.admitted, row.oracle].map(grouped));
        cells.push(signed(row.difference()));
        cells.extend([row.over_admitted, row.wrongly_refused].map(grouped));
        cells.push(grouped(match clock {
            Clock::Virtual => row.contended,
            Clock::Real => row.undecided,
        }));
        table.push(cells);
    }
    table
}

/// A cell, in words.
pub fn cell_names(cell: &Cell) -> [String; 4] {
    [
        cell.subject.name.to_owned(),
        cell.cpus.to_string(),
        cell.arrivals.name().to_owned(),
        cell.load.to_string(),
    ]
}

/// Describes the result of increments by two CPUs in a sentence.
pub fn increments(increments: &Increments) -> String {
    format!(
        "{} packets of one source from two CPUs at once, in {:.1} s: {} were admitted. {} were \
         refused because the other CPU changed the word at every try. The word says {}. {} \
         increments were lost.\n",
        grouped(increments.sent),
        increments.elapsed.as_secs_f64(),
        grouped(increments.admitted),
        grouped(increments.contended),
        grouped(increments.used),
        increments.lost(),
    )
}

fn signed(number: i64) -> String {
    if number == 0 {
        "0".to_owned()
    } else {
        format!("{number:+}")
    }
}
