//! A table in Markdown, which can be read as it is.

use std::fmt::{self, Display, Formatter};

/// Cells of text below headings; the cells of a column have the same width, and numbers are aligned
/// to the right.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: vec![],
        }
    }

    /// Adds a row, of as many cells as there are headings.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.headings.len(), "{row:?}");
        self.rows.push(row);
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].len());
        cells
            .chain([self.headings[column].len()])
            .max()
            .unwrap_or(0)
    }

    fn is_numeric(&self, column: usize) -> bool {
        let number = |row: &Vec<String>| row[column].replace([',', '+'], "").parse::<f64>().is_ok();
        !self.rows.is_empty() && self.rows.iter().all(number)
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> = (0..self.headings.len())
            .map(|column| (self.width(column), self.is_numeric(column)))
            .collect();
        let mut line = |cells: Vec<&str>| {
            for (cell, (width, is_numeric)) in cells.iter().zip(&columns) {
                if *is_numeric {
                    write!(formatter, "| {cell:>width$} ")?;
                } else {
                    write!(formatter, "| {cell:<width$} ")?;
                }
            }
            writeln!(formatter, "|")
        };
        line(self.headings.clone())?;
        let rule = |(width, is_numeric): &(usize, bool)| {
            let end = if *is_numeric { ":" } else { "-" };
            format!("{}{end}", "-".repeat(width - 1))
        };
        let rules: Vec<String> = columns.iter().map(rule).collect();
        line(rules.iter().map(String::as_str).collect())?;
        for row in &self.rows {
            line(row.iter().map(String::as_str).collect())?;
        }
        Ok(())
    }
}

/// A number with a comma before each three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_at_the_right() {
        let mut table = Table::new(&["word", "n"]);
        table.push(vec!["a".into(), "1,000".into()]);
        table.push(vec!["longer".into(), "-5".into()]);
        let expected = "\
| word   |     n |
| ------ | ----: |
| a      | 1,000 |
| longer |    -5 |
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(
            [7, 700, 7_000, 1_234_567].map(grouped),
            ["7", "700", "7,000", "1,234,567"]
        );
    }
}
