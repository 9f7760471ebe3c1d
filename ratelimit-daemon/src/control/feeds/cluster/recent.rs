//! The demand of a key in the periods of the last window.

use std::{collections::VecDeque, time::Duration};

/// The estimated demand is in units of 1/16.
pub const PARTS: u32 = 16;
/// The most periods that are kept.
const RECENT_MAX: u128 = 64;

#[derive(Debug)]
pub struct Recent(VecDeque<u64>);

impl Recent {
    /// Starts as if the demand had always been `value`.
    pub fn new(window: Duration, period: Duration, value: u64) -> Self {
        let periods = window.as_nanos().div_ceil(period.as_nanos().max(1));
        let count = usize::try_from(periods.clamp(1, RECENT_MAX)).unwrap_or(1);
        Self(vec![value; count].into())
    }

    fn push(&mut self, value: u64) {
        self.0.pop_front();
        self.0.push_back(value);
    }
}

/// Estimates the demand of a key per period, in [`PARTS`]: the mean over the last window, or the
/// last 64 periods of a longer one, within what the count of the last period makes plausible. So a
/// few packets are not mistaken for none, and a surge is followed at once.
pub fn estimate(mut recent: Recent, count: u64, quantum: u64) -> (u64, Recent) {
    recent.push(count);
    let noise = 2 * (count.saturating_mul(quantum)).isqrt() + 2 * quantum;
    let (sum, periods) = (recent.0.iter().sum::<u64>(), recent.0.len() as u64);
    let mean = sum.saturating_mul(PARTS.into()) / periods;
    let demand = mean.clamp(
        count.saturating_sub(noise).saturating_mul(PARTS.into()),
        count.saturating_add(noise).saturating_mul(PARTS.into()),
    );
    (demand, recent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_packets_are_a_mean_and_many_are_followed_at_once() {
        let ms = Duration::from_millis;
        let play = |counts: &[u64], quantum| {
            let mut recent = Recent::new(ms(1000), ms(250), 0);
            let mut demand = 0;
            for count in counts {
                (demand, recent) = estimate(recent, *count, quantum);
            }
            demand
        };
        assert_eq!(play(&[1, 0, 1, 0], 1), u64::from(PARTS / 2));
        assert_eq!(play(&[2, 2, 1, 3], 1), u64::from(2 * PARTS));
        assert_eq!(play(&[0, 0, 0, 2500], 1), u64::from(2398 * PARTS));
        assert_eq!(play(&[2500, 2500, 2500, 0], 1), u64::from(2 * PARTS));
        assert_eq!(play(&[0, 1500, 0, 1500], 1514), u64::from(750 * PARTS));
        assert_eq!(play(&[0, 0, 0, 0], 1), 0);
    }
}
