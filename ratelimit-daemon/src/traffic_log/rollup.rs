//! Sums by second, minute and hour. Each packet is in one sum of each.
//!
//! A fixed number of the latest sums is kept, independent of any clock.

use std::{collections::BTreeMap, mem, time::Duration};

use ratelimit_common::layout::Counter;

use super::{
    increments::Increment,
    series::{self, Sums},
};

/// Sums of one length.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Tier {
    Second,
    Minute,
    Hour,
}

/// A number among the sums of a tier.
pub type BucketKey = (Tier, i64);

/// The sum of a second, a minute or an hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bucket {
    /// The beginning, in seconds since 1970.
    pub at: i64,
    /// Number of its seconds with data.
    pub observed: u32,
    /// The traffic in this time.
    pub sums: Sums,
}

/// The sums that are not in the file, or other there.
#[derive(Clone, Debug, Default)]
pub struct Rollup {
    buckets: BTreeMap<BucketKey, Bucket>,
    /// The number of the last one of each tier.
    last: BTreeMap<Tier, i64>,
}

impl Tier {
    /// All, the shortest first.
    pub const ALL: [Self; 3] = [Self::Second, Self::Minute, Self::Hour];

    /// Returns the number of seconds in a bucket.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
        }
    }

    /// Returns the number of buckets to keep for a retention.
    pub fn count(self, keep: Duration) -> i64 {
        let wanted = i64::try_from(keep.as_secs()).unwrap_or(i64::MAX) / self.seconds();
        match self {
            Self::Second => wanted.min(3600),
            Self::Minute => wanted.min(7 * 24 * 60),
            Self::Hour => wanted,
        }
    }
}

impl Rollup {
    /// Continues the last sums of a file, and adds what was counted before they were read.
    pub fn behind(ends: BTreeMap<BucketKey, Bucket>, before: Self) -> Self {
        let mut last: BTreeMap<Tier, i64> = ends.keys().copied().collect();
        let mut buckets = ends;
        for ((tier, number), bucket) in before.buckets {
            let end = last.get(&tier).copied().unwrap_or_default();
            buckets.insert((tier, end + number), bucket);
        }
        for (tier, number) in before.last {
            *last.entry(tier).or_default() += number;
        }
        Self { buckets, last }
    }

    /// Distributes an increment evenly over its seconds; the first ones get the remainder.
    pub fn add(&mut self, increment: &Increment) {
        for index in 0..increment.seconds {
            let part = |count: u64| part(count, increment.seconds, index);
            let sums = increment.sums.iter().map(|(series, count)| {
                let count = Counter {
                    packets: part(count.packets),
                    bytes: part(count.bytes),
                };
                (series.clone(), count)
            });
            let sums = sums.filter(|(_, count)| *count != Counter::default());
            self.add_second(increment.first + index, &sums.collect());
        }
    }

    fn add_second(&mut self, second: i64, sums: &Sums) {
        let is_new = self.current(Tier::Second).is_none_or(|it| it.at != second);
        for tier in Tier::ALL {
            let at = second.div_euclid(tier.seconds()) * tier.seconds();
            let bucket = self.bucket(tier, at);
            let most = u32::try_from(tier.seconds()).unwrap_or(u32::MAX);
            bucket.observed = (bucket.observed + u32::from(is_new)).min(most);
            series::add(&mut bucket.sums, sums);
        }
    }

    /// Adds remaining quotas to the last second.
    pub fn note(&mut self, second: i64, levels: &Sums) {
        for tier in Tier::ALL {
            let place = (tier, self.last(tier));
            let bucket = self.buckets.get_mut(&place);
            let at = second.div_euclid(tier.seconds()) * tier.seconds();
            if let Some(bucket) = bucket.filter(|bucket| bucket.at == at) {
                series::add(&mut bucket.sums, levels);
            }
        }
    }

    fn current(&self, tier: Tier) -> Option<&Bucket> {
        let last = self.last.get(&tier)?;
        self.buckets.get(&(tier, *last))
    }

    /// The last one, or the next one where that begins at another time.
    fn bucket(&mut self, tier: Tier, at: i64) -> &mut Bucket {
        let is_other = self.current(tier).is_none_or(|it| it.at != at);
        let last = self.last.entry(tier).or_default();
        *last += i64::from(is_other);
        let bucket = self.buckets.entry((tier, *last)).or_default();
        bucket.at = at;
        bucket
    }

    /// The sums that are not in the file, or other there.
    pub const fn buckets(&self) -> &BTreeMap<BucketKey, Bucket> {
        &self.buckets
    }

    /// The number of the last sum of a tier.
    pub fn last(&self, tier: Tier) -> i64 {
        self.last.get(&tier).copied().unwrap_or_default()
    }

    /// Forgets sums that were written, apart from open ones.
    pub fn written(&mut self) {
        let last = &self.last;
        self.buckets
            .retain(|(tier, number), _| last.get(tier) == Some(number));
    }

    /// Forgets what is too much of sums that cannot be written.
    pub fn bound(&mut self, keep: Duration) {
        let last = mem::take(&mut self.last);
        let is_kept = |(tier, number): &BucketKey| {
            last.get(tier)
                .is_some_and(|last| *number > last - tier.count(keep))
        };
        self.buckets.retain(|place, _| is_kept(place));
        self.last = last;
    }
}

/// The part of a count that one of several gets.
fn part(count: u64, parts: i64, index: i64) -> u64 {
    let (parts, index) = (parts.max(1).cast_unsigned(), index.cast_unsigned());
    count / parts + u64::from(index < count % parts)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::traffic_log::series::Series;

    proptest! {
        #[test]
        fn each_packet_is_in_one_sum_of_each_tier(
            came in prop::collection::vec((-4000i64..9000, 1i64..90, 0u64..1000, 0u8..3), 1..30)
        ) {
            let mut rollup = Rollup::default();
            let mut all = Sums::new();
            for (index, (jump, seconds, packets, name)) in came.into_iter().enumerate() {
                // The clock advances, and is set occasionally.
                let first =
                    i64::try_from(index).unwrap() * 300 + if jump % 5 == 0 { jump } else { 0 };
                let sums = sums(name, packets);
                series::add(&mut all, &sums);
                rollup.add(&Increment { first, seconds, sums });
            }
            all.retain(|_, count| *count != Counter::default());
            for tier in Tier::ALL {
                let mut sum = Sums::new();
                let of_tier = rollup.buckets.iter().filter(|((own, _), _)| *own == tier);
                for (_, bucket) in of_tier {
                    prop_assert_eq!(bucket.at.rem_euclid(tier.seconds()), 0);
                    prop_assert!(i64::from(bucket.observed) <= tier.seconds());
                    series::add(&mut sum, &bucket.sums);
                }
                prop_assert_eq!(&sum, &all);
            }
        }
    }

    #[test]
    fn a_minute_has_the_sum_of_its_seconds_and_an_hour_that_of_its_minutes() {
        let mut rollup = Rollup::default();
        for second in 7200i64..7200 + 3600 {
            let sums = sums(0, second.cast_unsigned());
            rollup.add(&Increment {
                first: second,
                seconds: 1,
                sums,
            });
        }
        let count = |tier| rollup.buckets.keys().filter(|it| it.0 == tier).count();
        assert_eq!(Tier::ALL.map(count), [3600, 60, 1]);
        let minute = &rollup.buckets[&(Tier::Minute, 2)];
        assert_eq!((minute.at, minute.observed), (7260, 60));
        assert_eq!(minute.sums, sums(0, (7260..7320).sum()));
        let hour = &rollup.buckets[&(Tier::Hour, 1)];
        assert_eq!((hour.at, hour.observed), (7200, 3600));
        assert_eq!(hour.sums, sums(0, (7200..10800).sum()));
    }

    #[test]
    fn of_a_level_the_least_is_kept() {
        let mut rollup = Rollup::default();
        for (second, left) in [(7200, 9), (7201, 0), (7202, 4)] {
            rollup.add(&Increment {
                first: second,
                seconds: 1,
                sums: sums(0, 1),
            });
            rollup.note(second, &level(left));
        }
        // A period without counts has no notes.
        rollup.note(9_000_000, &level(0));
        let left = |tier| rollup.buckets[&(tier, rollup.last(tier))].sums[&watched()].packets;
        assert_eq!(Tier::ALL.map(left), [4, 0, 0]);
    }

    fn watched() -> Series {
        Series::Level {
            watched: "left of node".into(),
            limit: "{}".into(),
        }
    }

    fn level(packets: u64) -> Sums {
        [(watched(), Counter { packets, bytes: 0 })].into()
    }

    #[test]
    fn what_cannot_be_written_is_bounded() {
        let mut rollup = Rollup::default();
        let keep = Duration::from_hours(30 * 24);
        for second in 0..10_000 {
            let sums = sums(0, 1);
            rollup.add(&Increment {
                first: second,
                seconds: 1,
                sums,
            });
        }
        rollup.bound(keep);
        let count = |tier| rollup.buckets.keys().filter(|it| it.0 == tier).count();
        assert_eq!(Tier::ALL.map(count), [3600, 167, 3]);
        rollup.written();
        assert_eq!(rollup.buckets.len(), 3);
    }

    fn sums(name: u8, packets: u64) -> Sums {
        let name: Arc<str> = name.to_string().into();
        let bytes = 60 * packets;
        [(Series::Policy(name), Counter { packets, bytes })].into()
    }
}
