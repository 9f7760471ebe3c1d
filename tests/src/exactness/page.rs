//! Tables of the measured exactness.

use super::{Cell, Clock, Row, increments::Increments};
use crate::table::{Table, grouped};

/// The table of one clock, with a row for each algorithm and number of CPUs: the runs at all loads
/// and with all arrivals together.
pub fn table(clock: Clock, measured: &[(Cell, Row)]) -> Table {
    let mut table = Table::new(&[
        "algorithm",
        "CPUs",
        "sent",
        "admitted",
        "oracle",
        "largest difference",
        "over-admitted",
        "wrongly refused",
        match clock {
            Clock::Virtual => "contended",
            Clock::Real => "undecided",
        },
    ]);
    let of_clock: Vec<_> = measured
        .iter()
        .filter(|(cell, _)| cell.clock == clock)
        .collect();
    let is_alike = |(one, _): &&(Cell, Row), (other, _): &&(Cell, Row)| {
        (one.subject.name, one.cpus) == (other.subject.name, other.cpus)
    };
    for runs in of_clock.chunk_by(is_alike) {
        let (cell, _) = runs[0];
        let sum = |count: fn(&Row) -> u64| grouped(runs.iter().map(|(_, row)| count(row)).sum());
        let differences = runs.iter().map(|(_, row)| row.difference());
        let largest = differences.max_by_key(|it| it.unsigned_abs());
        table.push(vec![
            cell.subject.name.to_owned(),
            cell.cpus.to_string(),
            sum(|row| row.sent),
            sum(|row| row.admitted),
            sum(|row| row.oracle),
            signed(largest.unwrap_or_default()),
            sum(|row| row.over_admitted),
            sum(|row| row.wrongly_refused),
            sum(match clock {
                Clock::Virtual => |row| row.contended,
                Clock::Real => |row| row.undecided,
            }),
        ]);
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
