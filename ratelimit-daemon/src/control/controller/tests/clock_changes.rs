//! The clock is chosen again with each change of the limits, and no limit is judged by one that is
//! too coarse for it.

use ratelimit_common::{Policy, Settings};
use ratelimit_core::api::KernelClock;

use super::*;

#[test]
fn the_clock_follows_the_limits() {
    let mut lab = Lab::new(slow());
    assert_eq!(lab.clock(), KernelClock::Coarse);
    for (target, limit) in [
        (Some("192.0.2.0/24"), tiny_bucket()),
        (None, tiny_bucket()),
        (Some("203.0.113.0/24"), log()),
        (None, log()),
    ] {
        lab.set_limit(target, limit).unwrap();
        assert_eq!(lab.clock(), KernelClock::Precise, "{target:?}");
        lab.unlimit(target).unwrap();
        assert_eq!(lab.clock(), KernelClock::Coarse, "{target:?}");
    }
    lab.is_never_too_coarse();
}

#[test]
fn a_change_that_does_not_fit_leaves_the_clock_as_it_was() {
    let mut lab = Lab::new(slow());
    lab.leave_room(0);
    lab.set_limit(Some("192.0.2.0/24"), tiny_bucket())
        .unwrap_err();
    assert_eq!(lab.clock(), KernelClock::Coarse);
    lab.set_limit(None, tiny_bucket()).unwrap();
    assert_eq!(lab.clock(), KernelClock::Precise);
    lab.set_limit(Some("192.0.2.0/24"), tiny_bucket())
        .unwrap_err();
    assert_eq!(lab.clock(), KernelClock::Precise);
    lab.is_never_too_coarse();
}

#[test]
fn the_clock_of_the_configuration_is_taken() {
    for (wish, clock) in [
        (ClockWish::Precise, KernelClock::Precise),
        (ClockWish::Coarse, KernelClock::Coarse),
    ] {
        let mut config = slow();
        config.clock = wish;
        let mut lab = Lab::new(config);
        lab.set_limit(None, tiny_bucket()).unwrap();
        assert_eq!(lab.clock(), clock);
        let status = lab.status().clock;
        assert_eq!(
            (status.clock, status.wish, status.suits),
            (clock, wish, false)
        );
        assert_eq!(status.decides.unwrap().limit, tiny_bucket());
    }
}

#[test]
fn a_daemon_that_finds_the_coarse_clock_changes_it_before_its_policies() {
    let mut lab = Lab::new(slow());
    lab.config.default_policy.limits = vec![tiny_bucket()];
    for policy in lab.config.policies.values_mut() {
        policy.limits = vec![tiny_bucket()];
    }
    lab.start_again();
    assert_eq!(lab.clock(), KernelClock::Precise);
    lab.is_never_too_coarse();
}

impl Lab {
    /// The clock in the datapath, which is the one that is reported.
    fn clock(&self) -> KernelClock {
        let is_coarse = self.settings().coarse_clock();
        let reported = self.status().clock.clock;
        assert_eq!(reported == KernelClock::Coarse, is_coarse);
        reported
    }

    /// Replays all writes, and checks the clock of each limit after every step.
    fn is_never_too_coarse(&self) {
        let mut policies: BTreeMap<u32, Policy> = BTreeMap::new();
        let mut entries: BTreeMap<Prefix, EntryByGeneration> = BTreeMap::new();
        let mut settings = Settings::default();
        let mut coarse_steps = 0;
        for write in self.writes() {
            match &write {
                Write::Policy(index, policy) => {
                    policies.insert(*index, **policy);
                }
                Write::Entry(prefix, Some(entry)) => {
                    entries.insert(*prefix, *entry);
                }
                Write::Entry(prefix, None) => {
                    entries.remove(prefix);
                }
                Write::Settings(new) => settings = *new,
                Write::Classes(_)
                | Write::Switched(_)
                | Write::Total(_)
                | Write::Region(_)
                | Write::CopiedRegion(..)
                | Write::Attached => {}
            }
            let entries = entries
                .values()
                .map(|entry| entry.of(settings.generation()));
            let named = entries.filter_map(ListEntry::policy);
            let mut judging = named.chain([settings.default_policy()]);
            let is_fine = |index: u32| policies.get(&index).is_some_and(needs_precise);
            if settings.coarse_clock() {
                coarse_steps += 1;
                assert!(!judging.any(is_fine), "after {write:?}");
            }
        }
        assert!(coarse_steps > 0);
    }
}

/// Limits that the coarse clock suits on any machine.
fn slow() -> Config {
    let mut config = config();
    let minute = |amount| limit_by(amount, 60, Algorithm::FixedWindow);
    config.default_policy.limits = vec![minute(10)];
    for policy in config.policies.values_mut() {
        policy.limits = vec![minute(50)];
    }
    config
}

fn tiny_bucket() -> LimitSpec {
    limit_by(500, 1, Algorithm::TokenBucket { burst: 1 })
}

fn log() -> LimitSpec {
    limit_by(5, 60, Algorithm::SlidingLog)
}

fn needs_precise(policy: &Policy) -> bool {
    policy
        .limits()
        .any(|limit| limit.is_log() || limit.capacity() == 1)
}
