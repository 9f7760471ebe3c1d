//! The median of several rounds, and how far they lie apart.

use serde::{Deserialize, Serialize};

/// The results of several rounds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The one in the middle; of an even number the mean of the two.
    pub median: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// The spread of the figures; `None` when there are none.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let median = if sorted.len() % 2 == 1 {
            upper
        } else {
            f64::midpoint(sorted[middle - 1], upper)
        };
        Some(Self {
            min: sorted[0],
            median,
            max: sorted[sorted.len() - 1],
        })
    }

    /// Returns the figures in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            min: self.min * factor,
            median: self.median * factor,
            max: self.max * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        check(&[3.0, 1.0, 100.0], Some((1.0, 3.0, 100.0)));
        check(&[4.0, 1.0, 2.0, 3.0], Some((1.0, 2.5, 4.0)));
        check(&[7.0], Some((7.0, 7.0, 7.0)));
        check(&[], None);
    }

    fn check(figures: &[f64], expected: Option<(f64, f64, f64)>) {
        let spread = Spread::of(figures);
        assert_eq!(
            spread.map(|spread| (spread.min, spread.median, spread.max)),
            expected
        );
    }
}
