//! The search for the break point of a limiter.

use std::fmt;

use anyhow::Result;

/// The part of the pages at the break point.
const HALF: f64 = 0.5;
/// The lowest rate that is tried.
const LEAST: f64 = 500.0;
/// Halvings of the gap between two rates of which one is above the break point, on a logarithmic
/// scale: a factor of two becomes one of 1.41.
const HALVINGS: usize = 1;
/// A flood that sends less of its rate than this is as fast as its CPU can send it.
const FULL_SPEED: f64 = 0.7;

/// The rate of a flood, in packets per second, at which users get half of their pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakPoint {
    /// Measured.
    At(f64),
    /// Above this, which is all that the CPU of the flood sends.
    Above(f64),
}

impl BreakPoint {
    /// The rate, in packets per second.
    pub const fn rate(&self) -> f64 {
        match self {
            Self::At(rate) | Self::Above(rate) => *rate,
        }
    }

    /// Whether the flood could not be raised far enough.
    pub const fn is_above(&self) -> bool {
        matches!(self, Self::Above(_))
    }
}

impl fmt::Display for BreakPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_above() { "> " } else { "" };
        write!(f, "{mark}{:.2} Mpps", self.rate() / 1e6)
    }
}

/// Doubles or halves the rate, from `first` on, until one rate leaves users half of their pages and
/// one does not, and closes in. `ask` returns the rate at which a flood was sent, and the part of
/// the pages. A rate that seems to be above is asked again, and the better of both counts: other
/// load on the machine takes pages too.
pub fn search(first: f64, ask: &mut impl FnMut(f64) -> Result<(f64, f64)>) -> Result<BreakPoint> {
    let mut ask = |rate| -> Result<(f64, f64)> {
        let first = ask(rate)?;
        if first.1 >= HALF {
            return Ok(first);
        }
        let second = ask(rate)?;
        Ok(if second.1 > first.1 { second } else { first })
    };
    let mut rate = first.max(LEAST);
    let (mut below, mut above) = (None, None);
    let (mut below, mut above) = loop {
        if rate < LEAST {
            return Ok(BreakPoint::At(0.0));
        }
        let (sent, part) = ask(rate)?;
        if part < HALF {
            above = Some((sent, part));
            rate /= 2.0;
        } else if above.is_none() && sent < rate * FULL_SPEED {
            return Ok(BreakPoint::Above(sent));
        } else {
            below = Some((sent, part));
            rate *= 2.0;
        }
        if let (Some(below), Some(above)) = (below, above) {
            break (below, above);
        }
    };
    for _ in 0..HALVINGS {
        let (sent, part) = ask((below.0 * above.0).sqrt())?;
        let side = if part < HALF { &mut above } else { &mut below };
        *side = (sent, part);
    }
    Ok(BreakPoint::At(between(below, above)))
}

/// The rate of half of the pages, on the line between two rates on a logarithmic scale.
fn between(below: (f64, f64), above: (f64, f64)) -> f64 {
    let part = (below.1 - HALF) / (below.1 - above.1);
    below.0 * (above.0 / below.0).powf(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_break_point_is_found_from_any_start() {
        for point in [2e4, 1.3e5, 7e5, 2.9e6] {
            // Half of the pages at the point.
            let mut ask = |rate: f64| Ok((rate, 1.0 / (1.0 + rate / point)));
            for first in [0.0, 9e4, 5e6] {
                let found = search(first, &mut ask).unwrap();
                assert!(!found.is_above());
                assert!(
                    (found.rate() / point - 1.0).abs() < 0.02,
                    "{point}: {found}"
                );
            }
        }
    }

    #[test]
    fn a_turn_that_something_else_disturbed_does_not_count() {
        let mut turns = 0;
        let mut ask = |rate: f64| {
            turns += 1;
            let part = if turns == 2 {
                0.1
            } else {
                1.0 / (1.0 + rate / 1.3e5)
            };
            Ok((rate, part))
        };
        let found = search(5e4, &mut ask).unwrap();
        assert!((found.rate() / 1.3e5 - 1.0).abs() < 0.02, "{found}");
    }

    #[test]
    fn a_limiter_that_withstands_all_that_is_sent_is_above() {
        let mut ask = |rate: f64| Ok((rate.min(1.5e6), 0.8));
        let found = search(5e4, &mut ask).unwrap();
        assert_eq!(found, BreakPoint::Above(1.5e6));
        assert_eq!(found.to_string(), "> 1.50 Mpps");
    }

    #[test]
    fn a_limiter_that_itself_takes_half_of_the_pages_withstands_nothing() {
        let mut ask = |rate: f64| Ok((rate, 0.4));
        let found = search(5e4, &mut ask).unwrap();
        assert_eq!(found, BreakPoint::At(0.0));
    }
}
