//! The report as tables in Markdown, which a terminal shows as well.

use std::fmt::Write;

use crate::{
    report::{LiveRow, Report, Row},
    statistics::Spread,
    store::Store,
};

/// The cells of a line.
type Line = Vec<String>;

/// Formats the tables of packets, as far as they are `shown`, and of live traffic, with the failed
/// measurements.
pub fn render(report: &Report, shown: impl Fn(&Row) -> bool) -> String {
    let mut text = String::new();
    let in_stores = report.rows.iter().filter(|row| shown(row)).map(cell);
    let (in_stores, others): (Vec<_>, Vec<_>) = in_stores.partition(|cell| {
        Store::ALL
            .iter()
            .any(|store| cell.column.starts_with(store.label()))
    });
    for cells in [in_stores, others, live_cells(&report.live)] {
        if !cells.is_empty() {
            let _ = write!(text, "\n{}", pivot("case", &cells));
        }
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "\nSKIPPED: {skipped}");
    }
    text.trim_start().to_owned()
}

/// A figure, with the names of its row and column.
pub struct Cell {
    pub row: String,
    pub column: String,
    pub text: String,
}

/// `lru/pass/ipv4/hot` is in the row `pass/hot` and in the column `lru IPv4`.
fn cell(row: &Row) -> Cell {
    let mut parts: Vec<&str> = row.name.split('/').collect();
    let is_store = |name: &&str| Store::ALL.iter().any(|store| store.label() == *name);
    let store = parts.first().copied().filter(is_store);
    let family = parts.iter().position(|part| part.starts_with("ipv"));
    let family = family.map_or("", |index| parts.remove(index));
    let column = [store.unwrap_or_default(), &family.replace("ipv", "IPv")];
    let name = parts.split_off(store.iter().len());
    Cell {
        row: name.join("/"),
        column: column.join(" ").trim_start().to_owned(),
        text: format!("{:.2}{}", row.ratio.median, mark(row.is_reached())),
    }
}

/// A row for each contender and a column for each traffic. The first contender, which the others
/// are compared with, has its rate.
fn live_cells(rows: &[LiveRow]) -> Vec<Cell> {
    let of_traffic = rows.chunk_by(|one, other| one.name == other.name);
    let cells = of_traffic.flat_map(|rows| {
        rows.iter().enumerate().map(|(place, row)| Cell {
            row: row.contender.clone(),
            column: row.name.replace("live/ipv4/", ""),
            text: match place {
                0 => format!("{:.2} Mpps", row.packets_per_second.median / 1e6),
                _ => figure(row.of_first, row.is_reached()),
            },
        })
    });
    cells.collect()
}

/// The median and the spread, with a mark if a goal is missed.
pub fn figure(spread: Spread, is_reached: Option<bool>) -> String {
    let mark = mark(is_reached);
    let Spread { median, min, max } = spread;
    format!("{median:.2}{mark} ({min:.2}-{max:.2})")
}

/// Marks a missed goal.
const fn mark(is_reached: Option<bool>) -> &'static str {
    match is_reached {
        Some(false) => "*",
        _ => "",
    }
}

/// A table with a row and a column for each name, in the order of the cells.
pub fn pivot(corner: &str, cells: &[Cell]) -> String {
    let names = |name: fn(&Cell) -> &str| {
        let mut names: Vec<&str> = vec![];
        for name in cells.iter().map(name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let (rows, columns) = (names(|cell| &cell.row), names(|cell| &cell.column));
    let text = |row: &str, column: &str| {
        let mut cells = cells.iter();
        let cell = cells.find(|cell| cell.row == row && cell.column == column);
        cell.map_or_else(String::new, |cell| cell.text.clone())
    };
    let line = |row: &&str| {
        let figures = columns.iter().map(|column| text(row, column));
        [(*row).to_owned()].into_iter().chain(figures).collect()
    };
    let lines: Vec<Line> = rows.iter().map(line).collect();
    let heads = [corner].into_iter().chain(columns.iter().copied());
    table(&heads.collect::<Vec<_>>(), &lines)
}

/// The first column is to the left, the others to the right.
fn table(heads: &[&str], lines: &[Line]) -> String {
    let heads: Line = heads.iter().map(ToString::to_string).collect();
    let width = |column: usize| {
        let cells = lines
            .iter()
            .chain([&heads])
            .map(|line| line[column].chars().count());
        cells.max().unwrap_or_default().max(2)
    };
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    let rule = widths
        .iter()
        .enumerate()
        .map(|(column, width)| match column {
            0 => "-".repeat(*width),
            _ => format!("{}:", "-".repeat(width - 1)),
        });
    let rule = rule.collect();
    let mut text = String::new();
    for line in [heads, rule].iter().chain(lines) {
        let cells = line.iter().zip(&widths).enumerate();
        let padded = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(text, "| {} |", padded.collect::<Vec<_>>().join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown_with_columns_of_one_width() {
        let lines = vec![
            vec!["a".to_owned(), "1.00".to_owned()],
            vec!["long".to_owned(), "10.00".to_owned()],
        ];
        let expected = "\
| case | ratio |
| ---- | ----: |
| a    |  1.00 |
| long | 10.00 |
";
        assert_eq!(table(&["case", "ratio"], &lines), expected);
    }

    #[test]
    fn cases_of_both_stores_and_families_share_a_row() {
        let spread = |median| Spread {
            min: 1.0,
            median,
            max: 3.0,
        };
        let row = |name: &str, median| Row {
            name: name.to_owned(),
            sources: None,
            nanos: spread(median),
            zero_nanos: spread(1.0),
            ratio: spread(median),
            goal: Some(2.0),
            goal_text: None,
        };
        let rows = [
            row("lru/pass/ipv4/hot", 2.0),
            row("compact/pass/ipv4/hot", 2.5),
            row("lru/pass/ipv4/flood/2-cpus", 1.5),
            row("bare/ipv6/hot", 1.0),
        ];
        let cells = rows.iter().map(cell).collect::<Vec<_>>();
        let expected = "\
| case              | lru IPv4 | compact IPv4 | IPv6 |
| ----------------- | -------: | -----------: | ---: |
| pass/hot          |     2.00 |        2.50* |      |
| pass/flood/2-cpus |     1.50 |              |      |
| bare/hot          |          |              | 1.00 |
";
        assert_eq!(pivot("case", &cells), expected);
    }
}
