//! What was so in the periods of the last window: the shares that a key had, or what it asked.

use std::{collections::VecDeque, time::Duration};

/// What is asked in a period is estimated in so many parts of one.
pub const PARTS: u32 = 16;
/// The most values of the last window that are kept.
const RECENT_MAX: u128 = 64;

/// Values of the last window. The mean of the shares that a key had is what a node admits: so a source that moves to another node has its limit there as
/// the window passes in which it had it elsewhere. The means of all nodes are together within the limit where their shares are.
#[derive(Debug)]
pub struct Recent {
    /// Of every so many periods one.
    every: u64,
    values: VecDeque<u64>,
    /// When the last one came, in so many periods.
    at: u64,
}

impl Recent {
    /// As if it had always been `value`.
    pub fn new(window: Duration, period: Duration, value: u64) -> Self {
        let periods = window.as_nanos().div_ceil(period.as_nanos().max(1)).max(1);
        let every = periods.div_ceil(RECENT_MAX);
        let count = usize::try_from(periods.div_ceil(every)).unwrap_or(1);
        Self {
            every: u64::try_from(every).unwrap_or(u64::MAX),
            values: vec![value; count].into(),
            at: 0,
        }
    }

    /// Takes the value of a period. All nodes keep those of the same periods.
    pub fn take(&mut self, period: u64, value: u64) {
        let at = period / self.every;
        let passed = if self.at == 0 {
            1
        } else {
            at.saturating_sub(self.at)
        };
        self.at = at;
        for _ in 0..passed.min(self.values.len() as u64) {
            self.push(value);
        }
    }

    fn push(&mut self, value: u64) {
        self.values.pop_front();
        self.values.push_back(value);
    }

    /// The mean, rounded to the next whole number: of small limits much would be lost otherwise.
    pub fn mean(&self) -> u64 {
        let count = self.values.len() as u64;
        (self.values.iter().sum::<u64>() + count / 2) / count
    }

    /// The mean where `next` comes next.
    pub fn mean_with(&self, next: u64) -> u64 {
        let kept: u64 = self.values.iter().skip(1).sum();
        (kept + next) / self.values.len() as u64
    }
}

/// What a key asks in a period, in [`PARTS`]: the mean over the last window, or the last 64 periods of a longer one, as far as what was counted in the last period may come of it. So few packets in a
/// period are not taken for none, and many are followed at once.
pub fn estimate(mut recent: Recent, count: u64, quantum: u64) -> (u64, Recent) {
    recent.push(count);
    let noise = 2 * (count.saturating_mul(quantum)).isqrt() + 2 * quantum;
    let (sum, periods) = (
        recent.values.iter().sum::<u64>(),
        recent.values.len() as u64,
    );
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
    fn a_share_that_grows_does_so_over_a_window() {
        let ms = Duration::from_millis;
        let mut recent = Recent::new(ms(1000), ms(250), 333);
        recent.take(80, 1000);
        assert_eq!((recent.mean(), recent.mean_with(1000)), (500, 666));
        // Some periods are missed.
        recent.take(82, 1000);
        assert_eq!(recent.mean(), 833);
        recent.take(83, 1000);
        assert_eq!(recent.mean(), 1000);
        // A window that is no longer than a period has its share at once; of a long one, shares of some periods are kept.
        let mut recent = Recent::new(ms(200), ms(250), 333);
        recent.take(80, 1000);
        assert_eq!((recent.mean(), recent.mean_with(10)), (1000, 10));
        let mut recent = Recent::new(ms(64_000), ms(250), 0);
        (80..336).for_each(|period| recent.take(period, 1000));
        assert_eq!(
            (recent.values.len(), recent.every, recent.mean()),
            (64, 4, 1000)
        );
    }

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
