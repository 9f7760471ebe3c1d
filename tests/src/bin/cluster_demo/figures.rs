//! The figures that were checked, and those that are not what the limits say.

use std::ops::RangeInclusive;

/// The figures so far.
#[derive(Debug, Default)]
pub struct Figures {
    checked: usize,
    wrong: Vec<String>,
}

impl Figures {
    /// Checks how many packets of `what` arrived. Answers `ok`, or what was expected.
    pub fn check(&mut self, what: &str, expected: &RangeInclusive<u64>, arrived: u64) -> String {
        self.checked += 1;
        if expected.contains(&arrived) {
            return "ok".to_owned();
        }
        let expected = number_or_range(expected);
        self.wrong
            .push(format!("{what}: expected {expected}, arrived {arrived}"));
        format!("expected {expected}")
    }

    /// Checks a number that can be only one.
    pub fn check_exact(&mut self, what: &str, expected: u64, found: u64) -> String {
        self.check(what, &(expected..=expected), found)
    }

    /// The number of checked figures.
    pub fn checked(&self) -> usize {
        self.checked
    }

    /// A sentence for each that is wrong.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }
}

/// `300`, or `299 to 300` where the time of a packet leaves it open.
fn number_or_range(range: &RangeInclusive<u64>) -> String {
    if range.start() == range.end() {
        return range.start().to_string();
    }
    format!("{} to {}", range.start(), range.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_wrong_is_reported_with_what_was_expected() {
        let mut figures = Figures::default();
        assert_eq!(figures.check_exact("a", 300, 300), "ok");
        assert_eq!(figures.check_exact("b", 300, 312), "expected 300");
        assert_eq!(figures.check("c", &(299..=300), 299), "ok");
        assert_eq!(figures.check("d", &(299..=300), 0), "expected 299 to 300");
        assert_eq!(figures.checked(), 4);
        assert_eq!(
            figures.wrong(),
            [
                "b: expected 300, arrived 312",
                "d: expected 299 to 300, arrived 0"
            ]
        );
    }
}
