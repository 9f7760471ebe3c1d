//! Runtime limits beside those of the policy around them.

use ratelimit_core::{
    api::LimitsNow,
    ban::{BanSpec, Forgeable},
};

use super::*;

const SOURCE: &str = "192.0.2.66";

#[test]
fn other_limits_and_the_ban_of_the_policy_stay() {
    let mut lab = Lab::new(shipped());
    let now = lab.limit(Some(SOURCE), 5000).unwrap().limits.unwrap();
    let expected = LimitsNow {
        limits: vec![limit(5000), syn(20)],
        replaced: vec![limit(1000)],
        ban: Some(ban()),
        ..LimitsNow::default()
    };
    assert_eq!(now, expected);
    assert_eq!(lab.amounts(SOURCE), (vec![5000, 20], true));
    lab.restart();
    assert_eq!(lab.amounts(SOURCE), (vec![5000, 20], true));
    assert_eq!(lab.amounts("192.0.2.67"), (vec![1000, 20], true));
}

#[test]
fn limits_that_are_set_later_add_to_those_before() {
    let mut lab = Lab::new(shipped());
    lab.limit(Some(SOURCE), 5000).unwrap();
    let now = lab
        .set_limit(Some(SOURCE), syn(100))
        .unwrap()
        .limits
        .unwrap();
    assert_eq!(now.replaced, [syn(20)]);
    assert_eq!(lab.amounts(SOURCE), (vec![5000, 100], true));
    let now = lab.unlimit(Some(SOURCE)).unwrap().limits;
    assert_eq!(now.unwrap().limits, [limit(1000), syn(20)]);
    assert_eq!(lab.amounts(SOURCE), (vec![1000, 20], true));
}

#[test]
fn a_reload_of_the_policy_shows_through() {
    let mut lab = Lab::new(shipped());
    lab.limit(Some(SOURCE), 5000).unwrap();
    lab.limit(Some("192.0.2.0/24"), 3000).unwrap();
    let stricter = Config {
        default_policy: PolicyConfig {
            limits: vec![limit(1000), syn(7)],
            ..PolicyConfig::default()
        },
        ..shipped()
    };
    lab.replace(stricter).unwrap();
    assert_eq!(lab.amounts(SOURCE), (vec![5000, 7], false));
    assert_eq!(lab.amounts("192.0.2.67"), (vec![3000, 7], false));
}

#[test]
fn only_these_limits_hold_where_that_is_said() {
    let mut lab = Lab::new(shipped());
    let request = LimitRequest {
        prefix: Some(prefix(SOURCE)),
        limits: vec![limit(5000)],
        only: true,
        ..LimitRequest::default()
    };
    let now = lab.set_limits(request, "root").unwrap().limits;
    let now = now.unwrap();
    assert_eq!(now.replaced, [limit(1000), syn(20)]);
    assert_eq!((now.ban, now.ban_before), (None, Some(ban())));
    lab.restart();
    assert_eq!(lab.amounts(SOURCE), (vec![5000], false));
}

#[test]
fn a_policy_has_no_more_limits_with_those_set_at_runtime() {
    let mut lab = Lab::new(shipped());
    let windows = |count: u64| {
        let windows = (1..=count).map(|seconds| {
            let window = Duration::from_secs(100 * seconds);
            LimitSpec::new(9, LimitUnit::Bytes, window, Algorithm::FixedWindow).unwrap()
        });
        LimitRequest {
            prefix: Some(prefix(SOURCE)),
            limits: windows.collect(),
            ..LimitRequest::default()
        }
    };
    let refused = lab.set_limits(windows(7), "root").unwrap_err();
    assert_eq!(refused.error, "too many limits (maximum 8 per policy)");
    assert!(refused.hint.unwrap().contains("--only"));
    lab.set_limits(windows(6), "root").unwrap();
    let one_more = Config {
        default_policy: PolicyConfig {
            limits: vec![limit(1000), syn(20), limit(2)],
            ..PolicyConfig::default()
        },
        ..shipped()
    };
    let refused = lab.replace(one_more).unwrap_err();
    let expected = "192.0.2.66 has 9 limits including runtime limits";
    assert!(refused.error.starts_with(expected), "{refused:?}");
}

impl Lab {
    /// The amounts of the limits of an address, and whether its policy bans.
    fn amounts(&self, address: &str) -> (Vec<u64>, bool) {
        let policy = self.policy_of(address);
        let amounts = policy.limits().map(|limit| limit.algorithm().capacity());
        (amounts.collect(), policy.ban().is_some())
    }
}

fn shipped() -> Config {
    Config {
        default_policy: PolicyConfig {
            limits: vec![limit(1000), syn(20)],
            ban: Some(ban()),
            ..PolicyConfig::default()
        },
        ..config()
    }
}

fn syn(amount: u64) -> LimitSpec {
    limit(amount).of_class(Match::Named("tcp-syn".to_owned()))
}

fn ban() -> BanSpec {
    let within = Duration::from_secs(10);
    let after = NonZeroU32::new(9).unwrap();
    let factor = NonZeroU32::new(2).unwrap();
    BanSpec::new(
        (after, within),
        Duration::from_mins(10),
        (factor, Duration::from_hours(24)),
        Forgeable::Ban,
    )
    .unwrap()
}
