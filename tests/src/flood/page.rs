//! The outcome of each flood, in a table.

use super::{Cell, FloodResult, Promise, Store};
use crate::table::Table;

/// Returns a table of the cells of one store: a row for those with as many forged sources, with the
/// worst of them.
pub fn table(store: Store, capacity: u32, measured: &[(Cell, FloodResult)]) -> Table {
    let mut table = Table::new(&[
        "sources",
        "known: passed %",
        "promised %",
        "limited: times its limit",
        "forged: passed %",
    ]);
    let alike =
        |left: &(Cell, FloodResult), right: &(Cell, FloodResult)| left.0.share == right.0.share;
    for rows in measured.chunk_by(alike) {
        let cell = &rows[0].0;
        let outcomes = || rows.iter().map(|(_, outcome)| outcome);
        let least =
            |figure: fn(&FloodResult) -> f64| outcomes().map(figure).fold(f64::MAX, f64::min);
        let most = |figure: fn(&FloodResult) -> f64| outcomes().map(figure).fold(0.0, f64::max);
        let percent = |share: f64| format!("{:.2}", share * 100.0);
        table.push(vec![
            cell.share.to_string(),
            percent(least(|outcome| outcome.known.share())),
            percent(Promise::new(store, cell, capacity).known_share),
            format!("{:.2}", most(FloodResult::times_the_limit)),
            percent(most(|outcome| outcome.forged.share())),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::Passed;

    #[test]
    fn a_row_has_the_worst_of_the_floods_with_as_many_sources() {
        let known = |passed| FloodResult {
            windows: 1,
            known: Passed { sent: 10, passed },
            ..FloodResult::default()
        };
        let measured: Vec<_> = Cell::all()
            .take(32)
            .zip((0..32).map(|number| {
                known(if number == 9 {
                    9
                } else {
                    10 - u64::from(number > 15) * 2
                })
            }))
            .collect();
        let table = table(Store::Compact, 4_096, &measured).to_string();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), 2, "{table}");
        assert!(
            rows[0].contains(" 90.00 ") && rows[1].contains(" 80.00 "),
            "{table}"
        );
    }
}
