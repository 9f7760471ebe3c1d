//! The demand of packets for shared limits.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use ratelimit_cluster::budget::{AMOUNT_MAX, Count};
use ratelimit_common::{lease::Demand, source::LogKey};
use smart_default::SmartDefault;

use super::{
    recent::{PARTS, Recent, estimate},
    shared_limit::{Shared, budget},
};
use crate::{clock, cluster::ClusterKey};

/// The counts at a point in time.
#[derive(Debug, SmartDefault)]
pub(super) struct Counted {
    #[default(clock::monotonic())]
    at: Instant,
    demands: HashMap<LogKey, Demand>,
    /// The demand of each key for each limit in the periods of the last window.
    recent: HashMap<(LogKey, usize), Recent>,
}

impl Counted {
    /// Returns the keys with demand in the last window.
    pub fn keys(&self) -> impl Iterator<Item = LogKey> {
        self.recent.keys().map(|(key, _)| *key)
    }

    /// Takes the kernel's current counts, and returns the demand since the last call. `limits`
    /// returns the shared limits of a key: the name of each, and its index.
    pub fn take<'a, L>(
        &mut self,
        demands: Vec<(LogKey, Demand)>,
        period: Duration,
        limits: impl Fn(&LogKey) -> L,
    ) -> Vec<Count<ClusterKey>>
    where
        L: Iterator<Item = (u64, usize, &'a Shared)>,
    {
        let elapsed = clock::elapsed(self.at);
        let before = std::mem::take(&mut self.demands);
        let mut earlier = std::mem::take(&mut self.recent);
        self.at = clock::monotonic();
        let mut counts = Vec::new();
        for (key, demand) in &demands {
            let before = before.get(key).copied().unwrap_or_default();
            for (id, index, shared) in limits(key) {
                // A key that was evicted and came back starts at 0.
                let since = |now: &[u64; 8], before: &[u64; 8]| {
                    let (now, before) = (now[index], before[index]);
                    now.checked_sub(before).unwrap_or(now)
                };
                let admitted = since(&demand.admitted, &before.admitted);
                let refused = since(&demand.refused, &before.refused);
                let place = (*key, index);
                let recent = earlier
                    .remove(&place)
                    .unwrap_or_else(|| Recent::new(shared.window, period, 0));
                let (demand, recent) = estimate(recent, admitted + refused, shared.quantum);
                if demand > 0 || admitted > 0 {
                    let demand = scaled(demand, shared.window, elapsed * PARTS);
                    let refused = scaled(refused, shared.window, elapsed).min(demand);
                    counts.push(Count {
                        key: budget(key, id),
                        admitted: demand - refused,
                        refused,
                        passed: admitted,
                    });
                    self.recent.insert(place, recent);
                }
            }
        }
        self.demands = demands.into_iter().collect();
        counts
    }
}

fn scaled(count: u64, window: Duration, elapsed: Duration) -> u64 {
    let scaled = u128::from(count) * window.as_nanos() / elapsed.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX).min(AMOUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_as_much_as_a_window_has() {
        let (second, half) = (Duration::from_secs(1), Duration::from_millis(500));
        assert_eq!(scaled(300, second, half), 600);
        assert_eq!(scaled(300, half, second), 150);
        assert_eq!(scaled(u64::MAX, second, half), AMOUNT_MAX);
        assert_eq!(scaled(1, second, Duration::ZERO), 1_000_000_000);
    }
}
