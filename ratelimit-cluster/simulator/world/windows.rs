//! The usage of windows longer than a period.

use super::super::faults::{FROM, Fault, TO};
use super::super::invariants::Invariant;
use super::super::node::{LIMITS, PERIOD, WINDOW, WINDOWED};
use super::{BEGIN, Checked, World};
use ratelimit_cluster::Millis;

/// The time after which past faults no longer affect any window.
const SETTLED: Millis = 4 * PERIOD + WINDOW;

impl World {
    /// The usage of the current window of each node.
    pub(super) fn used_in_windows(&self, key: u8) -> Vec<u64> {
        let used = self.nodes.iter().map(|node| {
            let window = node.kernel.windows.get(&vec![key]);
            window.map_or(0, |window| window.used(self.now - node.booted))
        });
        used.collect()
    }

    /// The usage of the current windows of all nodes together.
    pub(super) fn check_windows(&mut self) -> Checked {
        let is_set = |(_, fault): &(Millis, Fault)| matches!(fault, Fault::SetStoreClock(_));
        let is_excused = self.faults.events.iter().any(is_set);
        let is_well =
            self.now < BEGIN + FROM || (self.now > BEGIN + TO + SETTLED && self.twice.is_empty());
        let nodes = self.nodes.len() as u64;
        for (key, limit) in (0u8..).zip(LIMITS).skip(usize::from(WINDOWED)) {
            let used = self.used_in_windows(key);
            let sum: u64 = used.iter().sum();
            let (most, invariant, part) = if is_well {
                let part = &mut self.tally.most_in_windows;
                (limit.amount, Invariant::WindowsWithinLimit, part)
            } else {
                // If a report is missing, each node takes its part, whatever others have used.
                let most = limit.amount * (2 * nodes - 1) / nodes;
                let part = &mut self.tally.most_in_windows_ill;
                (most, Invariant::WindowsWithinBound, part)
            };
            if !is_well && is_excused {
                continue;
            }
            *part = (*part).max(sum * 1000 / limit.amount);
            if sum > most {
                return self.fail(invariant, format!("key {key}: {used:?}"));
            }
        }
        Ok(())
    }

    /// The amount admitted in the last two windows of loads that do not move.
    pub(super) fn check_late(&mut self) -> Checked {
        for (key, limit) in (0u8..).zip(LIMITS).skip(usize::from(WINDOWED)) {
            let is_moving = self.seed.wrapping_add(u64::from(key)) % 4 == 2;
            if !self.twice.is_empty() || is_moving {
                continue;
            }
            let admitted = self.late.get(&key).copied().unwrap_or_default();
            let lost = 1000u64.saturating_sub(admitted * 1000 / (2 * limit.amount));
            self.tally.lost = self.tally.lost.max(lost);
            if lost > 50 {
                let what = format!("key {key}: {admitted} in two windows");
                return self.fail(Invariant::LimitIsUsed, what);
            }
        }
        Ok(())
    }
}
