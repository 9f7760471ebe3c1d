//! Another `[source]` puts other tables in place. Nothing that CPUs keep beside the tables of
//! before is of the new ones.

use std::net::Ipv4Addr;

use ratelimit_core::api::{Check, Status};
use ratelimit_tests::{
    Lab, packet::datagram, program::has_records, require_root, service::Service,
};

const LIMITS: &str = "[policy.default]\nlimits = [{ packets = 20, per = \"1h\" }]\n";
/// A source that has limits of its own.
const OWN: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 10);
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);

/// A CPU caches results by the number of the lists' state, which restarts with new lists.
#[test]
fn no_source_is_judged_by_what_the_lists_said_before() {
    require_root!();
    let (lab, service) = Service::in_lab(&source("compact", 4_096)).unwrap();
    let own = ["--prefix", "198.51.100.10", "--packets", "3", "--per", "1h"];
    service
        .rlctl_ok(&[&["limit", "set"], &own[..]].concat())
        .unwrap();
    let judge = || [OWN, OTHER].map(|it| passed(&lab, it));
    assert_eq!(judge(), [3, 20]);
    let larger = [4_096, 65_536].map(|capacity| ("compact", capacity));
    for (store, capacity) in [("lru", 4_096)].into_iter().chain(larger) {
        service.reload(&source(store, capacity)).unwrap();
        assert_eq!(judge(), [3, 20], "{store} {capacity}");
    }
}

/// A table keeps its size where another configuration fits into it, but not one that was made for
/// fewer sources.
#[test]
fn a_larger_compact_table_is_made_by_a_reload_and_by_a_start() {
    require_root!();
    let (lab, mut service) = Service::in_lab(&source("compact", 4_096)).unwrap();
    assert_eq!(passed(&lab, OTHER), 20);
    let small = slots(&service);
    service.reload(&source("compact", 8_192)).unwrap();
    let larger = slots(&service);
    assert!(larger > small, "{small} slots, and {larger}");
    assert_eq!(passed(&lab, OTHER), 20, "as the reload says, it is reset");
    service.stop("-TERM").unwrap();
    service.configure(&source("compact", 65_536)).unwrap();
    service.start().unwrap();
    let largest = slots(&service);
    assert!(largest >= 65_536, "{largest} slots");
    assert_eq!(passed(&lab, OTHER), 20);
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert_eq!((slots(&service), passed(&lab, OTHER)), (largest, 0));
}

/// A source that was refused is refused by the word of its record that was kept, and not for long
/// after.
#[test]
fn no_source_is_refused_by_a_record_that_there_is_no_more() {
    require_root!();
    if !has_records() {
        return;
    }
    let (lab, service) = Service::in_lab(&source("lru", 4_096)).unwrap();
    assert_eq!(passed(&lab, OTHER), 20);
    for (store, capacity) in [("lru", 8_192), ("compact", 8_192), ("lru", 8_192)] {
        service.reload(&source(store, capacity)).unwrap();
        let check: Check = service.json(&["check", "198.51.100.9"]).unwrap();
        assert_eq!((check.action.as_str(), check.limits[0].used), ("pass", 0));
        assert_eq!(passed(&lab, OTHER), 20, "{store} {capacity}");
    }
}

fn source(store: &str, capacity: u32) -> String {
    format!("{LIMITS}[source]\nstore = \"{store}\"\ncapacity = {capacity}\n")
}

/// Returns how many of enough packets pass to fill this CPU's cache.
#[track_caller]
fn passed(lab: &Lab, source: Ipv4Addr) -> usize {
    lab.passed(&datagram(source), 300).unwrap()
}

/// The slots of the table.
fn slots(service: &Service) -> u32 {
    let status: Status = service.json(&["status"]).unwrap();
    let mut maps = status.maps.into_iter();
    maps.find(|map| map.name == "COMPACT_V4").unwrap().capacity
}
