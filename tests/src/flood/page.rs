//! What became of each flood, in a table.

use super::{Cell, Outcome, Store};
use crate::table::{Table, grouped};

/// A table of the cells of one store.
#[must_use]
pub fn table(store: Store, capacity: u32, measured: &[(Cell, Outcome)]) -> Table {
    let mut table = Table::new(&[
        "sources",
        "packets each",
        "forged to own",
        "forged packets",
        "known: passed %",
        "promised %",
        "limited: times its limit",
        "forged: passed %",
    ]);
    for (cell, outcome) in measured {
        let percent = |share: f64| format!("{:.2}", share * 100.0);
        table.push(vec![
            cell.share.to_string(),
            cell.packets_each.to_string(),
            format!("{}:1", cell.ratio),
            grouped(outcome.forged.sent),
            percent(outcome.known.share()),
            percent(store.promise(cell, capacity).known_share),
            format!("{:.2}", outcome.times_the_limit()),
            percent(outcome.forged.share()),
        ]);
    }
    table
}
