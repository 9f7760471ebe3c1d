//! The goal of a case.

use std::fmt;

/// The most that a ratio may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// At most this ratio.
    AtMost(f64),
    /// This many times the cost of another case.
    Times(f64, String),
    /// This much more than the cost of another case.
    Plus(f64, String),
}

impl Goal {
    /// The figure that the goal is, from the ratios of other cases; `None` when that case was not
    /// measured.
    pub fn figure(&self, ratio_of: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        match self {
            Self::AtMost(figure) => Some(*figure),
            Self::Times(factor, case) => ratio_of(case).map(|ratio| ratio * factor),
            Self::Plus(more, case) => ratio_of(case).map(|ratio| ratio + more),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(figure) => write!(f, "at most {figure}"),
            Self::Times(factor, case) => write!(f, "{factor} times {case}"),
            Self::Plus(more, case) => write!(f, "{case} + {more}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_relative_to_another_case_follows_what_that_one_costs() {
        let ratio_of = |case: &str| (case == "hot").then_some(3.0);
        let hot = || "hot".to_owned();
        assert_eq!(Goal::AtMost(3.5).figure(ratio_of), Some(3.5));
        assert_eq!(Goal::Times(2.0, hot()).figure(ratio_of), Some(6.0));
        assert_eq!(Goal::Plus(0.5, hot()).figure(ratio_of), Some(3.5));
        assert_eq!(Goal::Plus(0.5, "flood".to_owned()).figure(ratio_of), None);
    }
}
