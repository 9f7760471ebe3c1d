//! The machine sleeps, and ends of bans move on the kernel's clock.

use super::*;
use crate::control::timekeeper::Reading;

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn after_a_suspend_a_ban_ends_when_it_would_have() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(7200.0)).unwrap();
    lab.ban(&["192.0.2.2"], None).unwrap();
    let before = lab.until("192.0.2.1").unwrap();
    let mut now = Reading::now();
    let hour = i64::try_from(HOUR.as_nanos()).unwrap();
    now.since_boot += hour;
    now.wall += hour;
    lab.controller.keep_time(now).unwrap();
    let moved = before.as_nanos() - lab.until("192.0.2.1").unwrap().as_nanos();
    assert!(
        moved.abs_diff(hour.cast_unsigned()) < 100_000_000,
        "{moved}"
    );
    assert_eq!(lab.until("192.0.2.2"), Some(Instant::from_nanos(u64::MAX)));
}

#[test]
fn a_step_of_the_wall_clock_changes_nothing() {
    for step in [-10, 10] {
        let mut lab = Lab::new(config());
        lab.ban(&["192.0.2.1"], Some(7200.0)).unwrap();
        let before = lab.entries();
        let mut now = Reading::now();
        now.wall += step * 365 * 24 * i64::try_from(HOUR.as_nanos()).unwrap();
        lab.controller.keep_time(now).unwrap();
        lab.restart();
        assert_eq!(lab.entries(), before);
    }
}
