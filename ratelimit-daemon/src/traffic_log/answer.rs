//! Answers queries for a period.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use ratelimit_common::layout::Counter;
use ratelimit_core::api::{
    History, HistoryRequest, LevelHistory, PastAttack, PolicyHistory, Refused, VerdictHistory,
};

use super::{
    rollup::{Bucket, Tier},
    series::{LEVEL, Series},
};

/// The points that are answered unless a step is asked for.
const POINTS: i64 = 720;
/// The most points: a week of minutes.
const POINTS_MAX: i64 = 10_081;
const HOUR: i64 = 3600;

/// The sums to read, and the points to combine them into.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plan {
    /// The tier of the sums.
    pub tier: Tier,
    /// The first second.
    pub from: i64,
    /// The second behind the last one.
    pub to: i64,
    /// The seconds of a point.
    pub step: i64,
}

impl Plan {
    /// Parses a request.
    pub fn of(request: HistoryRequest, now: i64, keep: Duration) -> Result<Self, Refused> {
        let to = request.to.map_or(now + 1, Timestamp::as_second);
        let from = request.from.map_or(to - HOUR, Timestamp::as_second);
        if from >= to {
            let refused = Refused::because("`from` is not before `to`");
            return Err(refused.hint("use times such as 2026-01-31T12:00:00Z"));
        }
        // The tier keeps a number of sums, which cover at least that time.
        let reaches = |tier: &Tier| now - from <= tier.count(keep) * tier.seconds();
        let tier = Tier::ALL.into_iter().find(reaches).unwrap_or(Tier::Hour);
        let oldest = now - Tier::Hour.count(keep) * Tier::Hour.seconds();
        let from = from.max(oldest).min(to - 1);
        let wanted = match request.step {
            Some(step) => i64::from(step).max(1),
            None => parts(to - from - 1, POINTS),
        };
        let step = parts(wanted, tier.seconds()) * tier.seconds();
        let from = from.div_euclid(step) * step;
        let plan = Self {
            tier,
            from,
            to,
            step,
        };
        if plan.points() > POINTS_MAX {
            let least = parts(to - from, POINTS_MAX - 1);
            let error = format!("too many data points: {}", plan.points());
            return Err(
                Refused::because(error).hint(format!("use a step of at least {least} seconds"))
            );
        }
        Ok(plan)
    }

    fn points(&self) -> i64 {
        parts(self.to - self.from, self.step)
    }

    /// Sums the buckets up.
    pub fn answer<'b>(
        &self,
        buckets: impl Iterator<Item = &'b Bucket>,
        attacks: Vec<PastAttack>,
    ) -> Result<History, jiff::Error> {
        let points = usize::try_from(self.points()).unwrap_or_default();
        let mut observed = vec![0u32; points];
        let mut counts = BTreeMap::<&Series, Vec<Option<Counter>>>::new();
        for bucket in buckets {
            let place = (bucket.at - self.from).div_euclid(self.step);
            let Some(place) = usize::try_from(place).ok().filter(|it| *it < points) else {
                continue;
            };
            let most = u32::try_from(self.step).unwrap_or(u32::MAX);
            observed[place] = (observed[place] + bucket.observed).min(most);
            for (series, count) in &bucket.sums {
                let points = counts.entry(series).or_insert_with(|| vec![None; points]);
                let joined = points[place].map_or(*count, |it| series.joined(it, *count));
                points[place] = Some(joined);
            }
        }
        let end = self.from + self.points() * self.step;
        let mut history = History {
            from: Timestamp::from_second(self.from)?,
            to: Timestamp::from_second(end)?,
            step_seconds: u32::try_from(self.step).unwrap_or(u32::MAX),
            observed_seconds: observed,
            verdicts: Vec::new(),
            policies: Vec::new(),
            levels: Vec::new(),
            attacks,
        };
        for (series, counts) in counts {
            report(&mut history, series, &counts);
        }
        Ok(history)
    }
}

/// Returns the number of intervals, including the last one, which may be shorter.
const fn parts(all: i64, length: i64) -> i64 {
    (all + length - 1).div_euclid(length)
}

/// Adds the points of a series.
fn report(history: &mut History, series: &Series, counts: &[Option<Counter>]) {
    let known = || counts.iter().map(|it| it.unwrap_or_default());
    let packets = known().map(|it| it.packets).collect();
    let bytes = known().map(|it| it.bytes).collect();
    match series {
        Series::Verdict { action, reason } => history.verdicts.push(VerdictHistory {
            action: action.to_string(),
            reason: reason.to_string(),
            packets,
            bytes,
        }),
        Series::Policy(name) => history.policies.push(PolicyHistory {
            policy: name.to_string(),
            packets,
            bytes,
        }),
        Series::Level { watched, limit } => {
            // A limit of a newer version is not understood, and hides no other.
            let Ok(limit) = serde_json::from_str(limit) else {
                return;
            };
            history.levels.push(LevelHistory {
                watched: watched.strip_prefix(LEVEL).unwrap_or(watched).to_owned(),
                limit,
                left: counts.iter().map(|it| it.map(|it| it.packets)).collect(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic_log::series::Sums;

    const KEEP: Duration = Duration::from_hours(30 * 24);
    const NOW: i64 = 1_800_000_000;

    #[test]
    fn the_shortest_sums_that_reach_back_are_summed_up() {
        let planned = |back: i64| {
            let plan = plan(Some(NOW - back), None).unwrap();
            (plan.tier, plan.step)
        };
        assert_eq!(planned(600), (Tier::Second, 1));
        assert_eq!(planned(3600), (Tier::Second, 5));
        assert_eq!(planned(24 * HOUR), (Tier::Minute, 120));
        assert_eq!(planned(7 * 24 * HOUR), (Tier::Minute, 840));
        assert_eq!(planned(30 * 24 * HOUR), (Tier::Hour, 3600));
        // Older data is not kept.
        assert_eq!(planned(3000 * 24 * HOUR), (Tier::Hour, 3600));
    }

    #[test]
    fn a_month_until_now_is_told_by_the_hour() {
        let from = Timestamp::from_second(NOW - 30 * 24 * HOUR).ok();
        let request = HistoryRequest {
            from,
            ..HistoryRequest::default()
        };
        assert_eq!(Plan::of(request, NOW, KEEP).unwrap().step, HOUR);
    }

    #[test]
    fn a_step_is_a_multiple_of_what_is_kept() {
        let planned = |back, step| plan(Some(NOW - back), Some(step)).map(|it| it.step);
        assert_eq!(planned(3600, 7).unwrap(), 7);
        assert_eq!(planned(24 * HOUR, 61).unwrap(), 120);
        assert_eq!(planned(30 * 24 * HOUR, 0).unwrap(), 3600);
        let refused = planned(7 * 24 * HOUR - 1, 1).map(drop);
        assert_eq!(refused, Ok(()));
        let times = HistoryRequest {
            from: Timestamp::from_second(NOW).ok(),
            to: Timestamp::from_second(NOW).ok(),
            step: None,
        };
        assert!(Plan::of(times, NOW, KEEP).is_err());
    }

    #[test]
    fn a_future_of_many_points_is_refused_with_the_step_that_is_not() {
        let request = HistoryRequest {
            from: Timestamp::from_second(NOW - 60).ok(),
            to: Timestamp::from_second(NOW + 400 * 24 * HOUR).ok(),
            step: Some(1),
        };
        let refused = Plan::of(request, NOW, KEEP).unwrap_err();
        let hint = refused.hint.unwrap();
        let step = hint.split_whitespace().find_map(|word| word.parse().ok());
        let request = HistoryRequest { step, ..request };
        Plan::of(request, NOW, KEEP).unwrap();
    }

    #[test]
    fn points_have_the_sums_of_what_begins_in_them() {
        let plan = Plan {
            tier: Tier::Second,
            from: 100,
            to: 110,
            step: 5,
        };
        let bucket = |at, packets| Bucket {
            at,
            observed: 1,
            sums: sums(packets),
        };
        let buckets = [
            bucket(100, 1),
            bucket(104, 2),
            bucket(104, 4),
            bucket(105, 8),
            bucket(110, 16),
        ];
        let history = plan.answer(buckets.iter(), vec![]).unwrap();
        assert_eq!(history.observed_seconds, [3, 1]);
        assert_eq!(history.policies[0].packets, [7, 8]);
        assert_eq!(
            (history.from.as_second(), history.to.as_second()),
            (100, 110)
        );
    }

    fn plan(from: Option<i64>, step: Option<u32>) -> Result<Plan, Refused> {
        let from = from.and_then(|from| Timestamp::from_second(from).ok());
        let request = HistoryRequest {
            from,
            to: Timestamp::from_second(NOW).ok(),
            step,
        };
        Plan::of(request, NOW, KEEP)
    }

    fn sums(packets: u64) -> Sums {
        let count = Counter { packets, bytes: 0 };
        [(Series::Policy("default".into()), count)].into()
    }
}
