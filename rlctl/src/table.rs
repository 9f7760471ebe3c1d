//! Tables in plain text: columns two spaces apart, as wide as their widest cell.

use std::fmt;

use crate::output::{HEAD, printable};

/// A head, and rows under it.
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// Marks a right-aligned column of numbers.
const RIGHT: char = '>';

impl Table {
    /// A table without rows, with a head such as `SOURCE | >PACKETS`. Columns have words, or
    /// numbers behind a `>`.
    pub fn new(head: &'static str) -> Self {
        Self {
            columns: head.split(" | ").collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|cell| printable(&cell));
        self.rows.push(cells.collect());
    }

    fn width(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[index].chars().count());
        let name = name(self.columns[index]);
        cells.fold(name.len(), usize::max)
    }

    /// A line without the spaces at its end.
    fn line(&self, widths: &[usize], cells: &[String]) -> String {
        let cells = self.columns.iter().zip(cells).zip(widths);
        let cells = cells.map(|((column, cell), &width)| {
            if column.starts_with(RIGHT) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let cells: Vec<String> = cells.collect();
        cells.join("  ").trim_end().to_owned()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.columns.len()).map(|i| self.width(i)).collect();
        let names: Vec<String> = self.columns.iter().map(|it| name(it).to_owned()).collect();
        write!(formatter, "{HEAD}{}{HEAD:#}", self.line(&widths, &names))?;
        for row in &self.rows {
            write!(formatter, "\n{}", self.line(&widths, row))?;
        }
        Ok(())
    }
}

fn name(column: &'static str) -> &'static str {
    column.strip_prefix(RIGHT).unwrap_or(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        check(
            &[
                ["eth0", "7", "pass"],
                ["lo", "12345678", ""],
                ["müsli0", "0", "x"],
            ],
            "NAME     PACKETS  ACTION\n\
             eth0           7  pass\n\
             lo      12345678\n\
             müsli0         0  x",
        );
    }

    #[test]
    fn a_table_without_rows_is_its_head() {
        check(&[], "NAME  PACKETS  ACTION");
    }

    #[test]
    fn a_cell_stays_on_its_line() {
        check(
            &[["a\nb", "1", "\x1b[2J"]],
            "NAME  PACKETS  ACTION\na?b         1  ?[2J",
        );
    }

    fn check(rows: &[[&str; 3]], expected: &str) {
        let mut table = Table::new("NAME | >PACKETS | ACTION");
        for row in rows {
            table.row(row.map(str::to_owned));
        }
        let text = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(text, expected);
    }
}
