//! Bans by policies and the daemon: adopted, ended by operators; found when no event came, and
//! without a daemon.

use std::{net::Ipv4Addr, time::Duration};

use ratelimit_core::{
    api::{Ban, Check},
    origin::Origin,
};
use ratelimit_tests::{
    attached::{Attached, Now},
    lab::{Receiver, Sender},
    packet::datagram,
    require_root,
    service::Service,
    wait_until,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
/// Packets that pass, and strikes that ban.
const LIMIT: u32 = 2;
const AFTER: u32 = 5;
/// The bans that policies made.
const BANNED: &str = "ratelimit_policy_bans_total{result=\"banned\"}";
const TOML: &str = "
[policy.default]
limits = [{ packets = 2, per = \"10m\" }]
ban = { after = 5, within = \"1m\", for = \"1h\", forgeable = \"ban\" }
[detection]
bans_per_minute = 100_000
forgeable_per_minute = 100_000
";

#[test]
fn a_ban_by_a_policy_is_listed_and_ended_by_hand() {
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let program = Attached::of(&service).unwrap();
    flood(&program.now().unwrap(), SOURCE);
    let found = wait_for_bans(&service, 1);
    assert_eq!(found[0].origin, Origin::Automatic);
    let reason = "5 drops by the limits of default, ban 1";
    assert_eq!(found[0].reason.as_deref(), Some(reason));
    let length = found[0].until.unwrap().duration_since(found[0].since);
    assert_eq!(length.as_secs(), 3600);
    assert!(!program.passes(&datagram(SOURCE)).unwrap());
    let reported = check(&service, SOURCE);
    assert_eq!(
        (reported.action.as_str(), reported.reason.as_str()),
        ("drop", "banned")
    );
    assert_eq!(reported.strikes.unwrap().bans, 1);
    service.rlctl_ok(&["unban", &SOURCE.to_string()]).unwrap();
    let reported = check(&service, SOURCE);
    assert_eq!(
        (reported.reason.as_str(), reported.strikes.unwrap().bans),
        ("limited", 0)
    );
    assert_eq!(bans(&service), []);
}

#[test]
fn without_a_daemon_the_kernel_bans_and_the_next_one_finds_it() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    service.stop("-KILL").unwrap();
    let mut receiver = Receiver::new(&lab.near).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    for _ in 0..LIMIT + AFTER {
        sender.send(&datagram(SOURCE)).unwrap();
    }
    let arrived = receiver.count(Duration::from_millis(500)).unwrap();
    assert_eq!(arrived, u64::from(LIMIT));
    service.start().unwrap();
    let found = bans(&service);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].prefix.to_string(), "203.0.113.9");
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert_eq!(bans(&service).len(), 1);
}

#[test]
fn bans_of_which_no_event_came_are_found() {
    const SOURCES: u32 = 3000;
    require_root!();
    let (_lab, service) = Service::in_lab(TOML).unwrap();
    let program = Attached::of(&service).unwrap().now().unwrap();
    service.signal("-STOP").unwrap();
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 0));
    for source in first..first + SOURCES {
        flood(&program, source.into());
    }
    service.signal("-CONT").unwrap();
    let found = wait_for_bans(&service, SOURCES as usize);
    assert_eq!(found.len(), SOURCES as usize);
    let value = |name| metric(&service, name);
    assert!(value("ratelimit_policy_ban_events_lost_total") > 0);
    assert_eq!(value("ratelimit_automatic_bans "), u64::from(SOURCES));
    let by_policy = "ratelimit_policy_bans_made_total{policy=\"default\"}";
    assert_eq!(value(by_policy), u64::from(SOURCES));
    assert_eq!(value(BANNED), u64::from(SOURCES));
}

#[test]
fn a_source_with_a_protected_address_takes_one_ban_from_the_budget() {
    require_root!();
    let shared = "[source]\nipv4_prefix = 24\n[protected]\nsources = [\"203.0.113.1\"]\n";
    let (_lab, service) = Service::in_lab(&format!("{TOML}{shared}")).unwrap();
    let program = Attached::of(&service).unwrap().now().unwrap();
    flood(&program, SOURCE);
    wait_until("the ban is lifted", || service.log().contains("lifted"));
    for _ in 0..3 {
        flood(&program, SOURCE);
    }
    assert_eq!((metric(&service, BANNED), bans(&service)), (1, vec![]));
    // Without the protection it is banned.
    let toml = format!("{TOML}[source]\nipv4_prefix = 24\n");
    service.reload(&toml).unwrap();
    wait_until("the source is banned", || {
        flood(&program, SOURCE);
        !bans(&service).is_empty()
    });
}

fn metric(service: &Service, name: &str) -> u64 {
    let metrics = service.metrics().unwrap();
    let line = metrics.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value
        .unwrap_or_else(|| panic!("{name} in {metrics}"))
        .parse()
        .unwrap()
}

/// Sends what passes, what makes the strikes, and one more, which is dropped.
fn flood(program: &Now, source: Ipv4Addr) {
    for _ in 0..LIMIT + AFTER {
        program.passes(&datagram(source)).unwrap();
    }
    assert!(!program.passes(&datagram(source)).unwrap());
}

fn wait_for_bans(service: &Service, count: usize) -> Vec<Ban> {
    let found = || Some(bans(service)).filter(|bans| bans.len() >= count);
    service.wait_for("all bans", found)
}

fn bans(service: &Service) -> Vec<Ban> {
    service.json(&["list", "bans"]).unwrap()
}

fn check(service: &Service, source: Ipv4Addr) -> Check {
    service.json(&["check", &source.to_string()]).unwrap()
}
