//! Allows and limits that are set at runtime for a time end at its end: with a daemon, without one,
//! and with another one.

use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};
use ratelimit_core::api::{Allow, Origin, PolicyView};
use ratelimit_tests::{Lab, attached::Attached, packet::datagram, require_root, service::Service};

const SOURCE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
/// One packet is what the configuration admits during a test.
const CONFIG: &str = "[policy.default]\nlimits = [{ packets = 1, per = \"1h\" }]\n";
/// Ends are reported to the millisecond, and those of allows are up to 4.2 ms later in the kernel.
const EXACT: SignedDuration = SignedDuration::from_millis(10);

#[test]
fn at_the_end_of_an_allow_a_banned_source_is_banned_again() {
    require_root!();
    let (lab, service) = Service::in_lab(CONFIG).unwrap();
    let until = allow_banned(&service);
    assert!(follow(&lab, until) > 0, "nothing was sent in time");
    service.wait_until("the end", || runtime(&service).is_empty());
    assert!(!passes(&lab));
    // Expired rows disappear from reports at once, and are recorded with the next tick.
    service.wait_for_event("allow expired: 203.0.113.9 (set by root)");
    let check = service.rlctl(&["check", "203.0.113.9"]).unwrap();
    assert!(
        check.stdout.contains("rule: the ban of 203.0.113.9"),
        "{check:?}"
    );
    assert!(!check.stdout.contains("allow"), "{check:?}");
}

#[test]
fn an_allow_ends_with_no_daemon_alive_and_the_next_one_knows_it() {
    require_root!();
    let (lab, mut service) = Service::in_lab(CONFIG).unwrap();
    let until = allow_banned(&service);
    service.stop("-KILL").unwrap();
    follow(&lab, until);
    service.start().unwrap();
    assert_eq!(runtime(&service), []);
    assert!(!passes(&lab));
}

#[test]
fn at_their_end_limits_are_those_of_the_configuration_again() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    limit(&service, "2s");
    let program = Attached::of(&service).unwrap();
    let until = policies(&service)[0]
        .runtime
        .clone()
        .unwrap()
        .until
        .unwrap();
    // The amount alone is another one, so what was used stays used after their end.
    let passed = program.passed(&datagram(SOURCE), 9).unwrap();
    let in_time = Timestamp::now() + EXACT < until;
    assert!(!in_time || passed == 9, "{passed} of 9 packets passed");
    service.wait_until("the end", || policies(&service)[0].runtime.is_none());
    assert!(Timestamp::now() > until - EXACT);
    assert_eq!(program.passed(&datagram(SOURCE), 9).unwrap(), 0);
    service.wait_for_event("runtime limits expired: the default policy");
}

/// Bans the source, and allows it for two seconds; returns the end of the allow.
fn allow_banned(service: &Service) -> Timestamp {
    service
        .rlctl_ok(&["ban", "203.0.113.9", "--for", "1h"])
        .unwrap();
    allow(service, "203.0.113.9", "2s");
    allows(service)[0].until.unwrap()
}

/// Sends packets of the allowed source until its allow has ended, and answers how many were sent
/// before.
fn follow(lab: &Lab, until: Timestamp) -> usize {
    let mut before = 0;
    loop {
        let start = Timestamp::now();
        let passed = passes(lab);
        if Timestamp::now() + EXACT < until {
            assert!(passed, "at {start}, until {until}");
            before += 1;
        } else if start > until + EXACT {
            assert!(!passed, "at {start}, until {until}");
            return before;
        }
    }
}

fn allow(service: &Service, prefix: &str, lifetime: &str) {
    let line = [
        "allow",
        "add",
        prefix,
        "--for",
        lifetime,
        "--reason",
        "migration",
    ];
    service.rlctl_ok(&line).unwrap();
}

/// Gives the default policy limits that no test reaches.
fn limit(service: &Service, lifetime: &str) {
    let line = format!("limit set --packets 1000 --per 1h --for {lifetime} --reason crawler");
    let line: Vec<&str> = line.split(' ').collect();
    service.rlctl_ok(&line).unwrap();
}

/// The allows that were set at run time.
fn runtime(service: &Service) -> Vec<Allow> {
    let allows = allows(service).into_iter();
    allows
        .filter(|allow| allow.origin == Origin::Manual)
        .collect()
}

fn allows(service: &Service) -> Vec<Allow> {
    service.json(&["list", "allows"]).unwrap()
}

fn policies(service: &Service) -> Vec<PolicyView> {
    service.json(&["list", "limits"]).unwrap()
}

fn passes(lab: &Lab) -> bool {
    lab.passes(&datagram(SOURCE)).unwrap()
}
