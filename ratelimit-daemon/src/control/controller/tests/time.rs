//! The machine sleeps, and ends of bans, allows and limits move on the kernel's clock.

use ratelimit_core::intent::{LimitRow, Target};

use super::*;
use crate::{clock, control::time::ban_clock::Reading};

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn after_a_suspend_everything_ends_when_it_would_have() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(7200.0)).unwrap();
    lab.ban(&["192.0.2.2"], None).unwrap();
    lab.edit(&allow_and_limits(clock::after(2 * HOUR)));
    let before = lab.until("192.0.2.1").unwrap();
    let set_before = runtime_ends(&lab);
    let allowed_before = lab.entries()[&prefix("198.51.100.1")]
        .allowed_until()
        .unwrap();
    let mut now = Reading::now();
    let hour = i64::try_from(HOUR.as_nanos()).unwrap();
    now.since_boot += hour;
    now.wall += hour;
    lab.state.keep_time(now).unwrap();
    let allowed = lab.entries()[&prefix("198.51.100.1")]
        .allowed_until()
        .unwrap();
    let before = [vec![before, allowed_before], set_before].concat();
    let after = [
        vec![lab.until("192.0.2.1").unwrap(), allowed],
        runtime_ends(&lab),
    ]
    .concat();
    for (before, after) in before.into_iter().zip(after) {
        let moved = before.as_nanos() - after.as_nanos();
        assert!(
            moved.abs_diff(hour.cast_unsigned()) < 100_000_000,
            "{moved}"
        );
    }
    assert_eq!(lab.until("192.0.2.2"), Some(Instant::from_nanos(u64::MAX)));
}

#[test]
fn a_step_of_the_wall_clock_changes_nothing() {
    for step in [-10, 10] {
        let mut lab = Lab::new(config());
        lab.ban(&["192.0.2.1"], Some(7200.0)).unwrap();
        lab.edit(&allow_and_limits(clock::after(2 * HOUR)));
        let before = (lab.entries(), runtime_ends(&lab));
        let mut now = Reading::now();
        now.wall += step * 365 * 24 * i64::try_from(HOUR.as_nanos()).unwrap();
        lab.state.keep_time(now).unwrap();
        lab.restart();
        assert_eq!((lab.entries(), runtime_ends(&lab)), before);
    }
}

fn allow_and_limits(until: Instant) -> [Edit; 2] {
    let allow = rows::entry(until, None::<&str>, "root");
    let limits = LimitRow {
        limits: vec![limit(5)],
        observe: false,
        only: false,
        entry: allow.clone(),
    };
    [
        Edit::Allow(prefix("198.51.100.1"), Some(allow)),
        Edit::Limits(Target::Default, Some(limits)),
    ]
}

/// The intended ends of the allow and the limits.
fn runtime_ends(lab: &Lab) -> Vec<Instant> {
    let intent = &lab.state.intent;
    let allows = intent.allows().values().map(|row| row.until);
    let limits = intent.limits().values().map(|row| row.entry.until);
    allows.chain(limits).collect()
}
