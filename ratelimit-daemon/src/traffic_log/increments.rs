//! Differences between samples.

use std::time::Duration;

use ratelimit_common::{Verdict, layout::Counter};

use super::{
    sample::{Counters, Sample},
    series::{Series, Sums},
};

/// The longest time between two samples of which it is known what came in each second: as much as
/// in the others.
pub const GAP_MAX: i64 = 300;
/// The largest difference between the two clocks between two samples, in seconds.
const APART_MAX: i64 = 2;

/// The counters of the last sample, and when that was.
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// The second, by the wall clock.
    pub second: i64,
    /// The time since the machine started.
    pub since_boot: Duration,
    /// The counters.
    pub counters: Counters,
}

/// The sum over some seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Increment {
    /// The first second.
    pub first: i64,
    /// The number of seconds.
    pub seconds: i64,
    /// The traffic in these seconds.
    pub sums: Sums,
}

impl Last {
    /// Takes the counters of a sample.
    pub fn of(sample: &Sample) -> Self {
        Self {
            second: sample.at.as_second(),
            since_boot: sample.since_boot,
            counters: sample.counters.clone(),
        }
    }

    /// Returns the difference to `next`; `None` if the gap is too long.
    pub fn until(&self, next: &Self) -> Option<Increment> {
        let elapsed = next.since_boot.checked_sub(self.since_boot)?;
        let elapsed = i64::try_from(elapsed.as_secs()).ok()?;
        if elapsed > GAP_MAX {
            return None;
        }
        let shown = next.second - self.second;
        // A clock that was set names the last second only.
        let is_set = (shown - elapsed).abs() > APART_MAX;
        let seconds = if is_set { 1 } else { shown.max(1) };
        Some(Increment {
            first: next.second - (seconds - 1),
            seconds,
            sums: came(&self.counters, &next.counters),
        })
    }
}

/// Returns the difference between two samples. A counter that decreased was reset. Counts of a new
/// interface or policy precede the first sample.
fn came(before: &Counters, after: &Counters) -> Sums {
    let mut sums = Sums::new();
    for (name, counts) in &after.interfaces {
        let Some(old) = before.interfaces.get(name) else {
            continue;
        };
        for (place, count) in counts {
            let Some(verdict) = Verdict::all().find(|it| it.index() == place.1) else {
                continue;
            };
            let old = old.get(place).copied().unwrap_or_default();
            add(&mut sums, Series::of(verdict), since(old, *count));
        }
    }
    for (name, count) in &after.policies {
        if let Some(old) = before.policies.get(name) {
            add(&mut sums, Series::Policy(name.clone()), since(*old, *count));
        }
    }
    sums
}

fn add(sums: &mut Sums, series: Series, count: Counter) {
    if count.packets > 0 {
        let sum = sums.entry(series).or_default();
        *sum = sum.plus(count);
    }
}

fn since(old: Counter, new: Counter) -> Counter {
    if new.packets < old.packets {
        return new;
    }
    Counter {
        packets: new.packets - old.packets,
        bytes: new.bytes.saturating_sub(old.bytes),
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{DropReason, Family};

    use super::*;

    const LIMITED: Verdict = Verdict::Drop(DropReason::Limited);

    #[test]
    fn what_came_is_the_difference() {
        let increment = last(100, 50, &[("eth0", 7)]).until(&last(101, 51, &[("eth0", 17)]));
        assert_eq!(increment, Some(increment_of(101, 1, 10)));
    }

    #[test]
    fn a_counter_that_is_less_was_begun_again() {
        let increment = last(100, 50, &[("eth0", 1000)]).until(&last(101, 51, &[("eth0", 3)]));
        assert_eq!(increment, Some(increment_of(101, 1, 3)));
    }

    #[test]
    fn what_a_new_interface_had_counted_came_before() {
        let before = last(100, 50, &[("eth0", 7)]);
        let increment = before.until(&last(101, 51, &[("eth0", 7), ("eth1", 900)]));
        assert_eq!(increment.unwrap().sums, Sums::new());
    }

    #[test]
    fn seconds_in_which_nobody_looked_are_told_together() {
        let increment = last(100, 50, &[("eth0", 0)]).until(&last(110, 60, &[("eth0", 50)]));
        assert_eq!(increment, Some(increment_of(101, 10, 50)));
        let long = last(100, 50, &[("eth0", 0)]).until(&last(900, 850, &[("eth0", 50)]));
        assert_eq!(long, None);
    }

    #[test]
    fn a_clock_that_is_set_names_one_second() {
        let before = last(1_000_000, 50, &[("eth0", 0)]);
        for second in [5, 999_000, 1_000_100, 9_000_000_000] {
            let increment = before.until(&last(second, 51, &[("eth0", 4)]));
            assert_eq!(increment, Some(increment_of(second, 1, 4)));
        }
    }

    #[test]
    fn another_start_of_the_machine_continues_nothing() {
        let after = last(200, 10, &[("eth0", 3)]);
        assert_eq!(last(100, 50, &[("eth0", 0)]).until(&after), None);
    }

    fn last(second: i64, since_boot: u64, counted: &[(&str, u64)]) -> Last {
        let mut counters = Counters::default();
        for (interface, packets) in counted {
            let count = Counter {
                packets: *packets,
                bytes: 60 * packets,
            };
            counters.count((*interface).to_owned(), Family::Ipv4, LIMITED, count);
        }
        Last {
            second,
            since_boot: Duration::from_secs(since_boot),
            counters,
        }
    }

    fn increment_of(first: i64, seconds: i64, packets: u64) -> Increment {
        let count = Counter {
            packets,
            bytes: 60 * packets,
        };
        Increment {
            first,
            seconds,
            sums: [(Series::of(LIMITED), count)].into(),
        }
    }
}
