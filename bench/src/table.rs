//! The report as tables in Markdown, which a terminal shows as well.

use std::fmt::Write;

use crate::report::{LiveRow, Report, Row};

/// The cells of a line.
type Line = Vec<String>;

/// Formats both tables, with the failed measurements.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    if !report.rows.is_empty() {
        let heads = ["case", "ratio", "spread", "goal", "", "ns"];
        text += &table(&heads, &report.rows.iter().map(line).collect::<Vec<_>>());
    }
    if !report.live.is_empty() {
        let heads = [
            "traffic",
            "through",
            "of the first",
            "spread",
            "goal",
            "",
            "Mpps",
            "dropped",
        ];
        text += "\n";
        text += &table(
            &heads,
            &report.live.iter().map(live_line).collect::<Vec<_>>(),
        );
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "\nSKIPPED: {skipped}");
    }
    text
}

fn line(row: &Row) -> Line {
    vec![
        row.name.clone(),
        format!("{:.2}", row.ratio.median),
        format!("{:.2}-{:.2}", row.ratio.min, row.ratio.max),
        row.goal
            .map_or_else(String::new, |goal| format!("{goal:.2}")),
        mark(row.is_reached()),
        format!("{:.1}", row.nanos.median),
    ]
}

fn live_line(row: &LiveRow) -> Line {
    let spread = row.of_first;
    vec![
        row.name.clone(),
        row.contender.clone(),
        format!("{:.2}", spread.median),
        format!("{:.2}-{:.2}", spread.min, spread.max),
        row.goal
            .map_or_else(String::new, |goal| format!("{goal:.2}")),
        mark(row.is_reached()),
        format!("{:.2}", row.packets_per_second.median / 1e6),
        format!("{:.1} %", row.dropped * 100.0),
    ]
}

/// Whether a goal is reached.
pub fn mark(is_reached: Option<bool>) -> String {
    match is_reached {
        Some(true) => "reached",
        Some(false) => "missed",
        None => "",
    }
    .to_owned()
}

/// The first column is to the left, the others to the right.
pub fn table(heads: &[&str], lines: &[Line]) -> String {
    let heads: Line = heads.iter().map(ToString::to_string).collect();
    let width = |column: usize| {
        let cells = lines.iter().chain([&heads]).map(|line| line[column].len());
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
}
