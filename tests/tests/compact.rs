//! The `compact` store as installed: its status, and its state over reloads, restarts and floods.

use std::{fmt::Write, net::Ipv4Addr};

use ratelimit_core::api::{Check, MapStatus, Status, TopSource};
use ratelimit_tests::{Frame, Lab, attached::Attached, require_root, service::Service};

const CAPACITY: u32 = 4_096;

#[test]
fn usage_is_reported_by_check_top_and_status() {
    require_root!();
    let (_lab, service) = Service::in_lab(&limited("packets = 10, per = \"10m\"")).unwrap();
    let program = Attached::of(&service).unwrap();
    for (source, packets) in [(1, 4), (2, 30), (3, 7)] {
        let passed = program.passed(&ipv4(source), packets).unwrap();
        assert_eq!(passed, packets.min(10));
    }
    let check: Check =
        serde_json::from_str(&reported(&service, &["check", "198.51.100.3"])).unwrap();
    assert_eq!((check.action.as_str(), check.limits[0].used), ("pass", 7));
    let check: Check =
        serde_json::from_str(&reported(&service, &["check", "198.51.100.2"])).unwrap();
    assert_eq!((check.action.as_str(), check.limits[0].used), ("drop", 10));
    let top: Vec<TopSource> =
        serde_json::from_str(&reported(&service, &["top", "--rows", "2"])).unwrap();
    let found: Vec<(String, u64, u64)> = top
        .iter()
        .map(|it| {
            (
                it.source.to_string(),
                it.limit.as_ref().unwrap().used,
                it.refused_packets,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("198.51.100.2".to_owned(), 10, 20),
            ("198.51.100.3".to_owned(), 7, 0)
        ]
    );
    let table = map(&service, "COMPACT_V4");
    assert_eq!(table.entries, Some(3));
    // A page of the kernel's own comes with it.
    assert_eq!(table.memory_bytes, 16 * u64::from(table.capacity) + 4096);
    assert!(table.capacity >= CAPACITY, "{table:?}");
}

/// A source has used all of 10: whatever comes in between, and however the daemon ends, it has.
#[test]
fn what_was_used_is_used_when_a_policy_or_an_algorithm_comes_back() {
    const PARTNER: &str = "[policy.partner]\n\
                           sources = [\"198.51.100.0/24\"]\n\
                           limits = [{ packets = 7, per = \"10m\" }]\n";
    require_root!();
    let lab = Lab::new().unwrap();
    let fixed = limited("packets = 10, per = \"10m\"");
    let sliding = limited("packets = 10, per = \"10m\", algorithm = \"sliding-window\"");
    let with_partner = format!("{fixed}{PARTNER}");
    let mut service = Service::started(&lab, &with_partner).unwrap();
    let passed = |service: &Service, source: Ipv4Addr| {
        let frame = Frame::ethernet().ipv4(source).udp(9).build();
        let program = Attached::of(service).unwrap();
        program.passed(&frame, 20).unwrap()
    };
    let [own, other] = [
        Ipv4Addr::new(198, 51, 100, 1),
        Ipv4Addr::new(203, 0, 113, 1),
    ];
    assert_eq!([own, other].map(|source| passed(&service, source)), [7, 10]);
    for (turn, between) in [&fixed, &sliding].into_iter().enumerate() {
        // One way with another algorithm: its two reloads are those without it.
        let crashes = if turn == 0 { 0..4 } else { 3..4 };
        for crashes in crashes {
            for (text, crash) in [(between, crashes & 1), (&with_partner, crashes & 2)] {
                service.reload(text).unwrap();
                if crash != 0 {
                    service.stop("-KILL").unwrap();
                    service.start().unwrap();
                }
            }
            let again = [own, other].map(|source| passed(&service, source));
            assert_eq!(again, [0, 0], "turn {turn}, crashes {crashes}");
        }
    }
    // The same with a trial that is rolled back.
    let trial = service.path("trial.toml");
    service.configure(&sliding).unwrap();
    std::fs::rename(service.config(), &trial).unwrap();
    service.configure(&with_partner).unwrap();
    for crash in [false, true] {
        let trial = trial.to_str().unwrap();
        let apply = ["apply", trial, "--confirm", "1h"];
        service.rlctl_ok(&apply).unwrap();
        if crash {
            service.stop("-KILL").unwrap();
            service.start().unwrap();
        }
        service.rlctl_ok(&["rollback"]).unwrap();
        let again = [own, other].map(|source| passed(&service, source));
        assert_eq!(again, [0, 0], "crash {crash}");
    }
}

#[test]
fn limits_for_which_there_is_no_room_are_refused_and_find_it_after_a_restart() {
    require_root!();
    let lab = Lab::new().unwrap();
    let old = limited("packets = 10, per = \"10m\"");
    let mut service = Service::started(&lab, &old).unwrap();
    let mut policies = String::new();
    for index in 0..1_000 {
        let sources = format!("10.{}.{}.0/23", index / 128, index % 128 * 2);
        let limits = "[{ packets = 5, per = \"1m\" }]";
        writeln!(
            policies,
            "[policy.p{index}]\nsources = [\"{sources}\"]\nlimits = {limits}"
        )
        .unwrap();
    }
    service.configure(&format!("{old}{policies}")).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains("no room for the limits of p") && said.stderr.contains("restart"),
        "{said:?}"
    );
    let check: Check = serde_json::from_str(&reported(&service, &["check", "10.0.0.1"])).unwrap();
    assert_eq!(check.policy, "default");
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    let check: Check = serde_json::from_str(&reported(&service, &["check", "10.0.0.1"])).unwrap();
    assert_eq!(check.policy, "p0");
}

#[test]
fn a_table_of_another_size_is_recreated_and_a_store_of_another_kind_too() {
    require_root!();
    let lab = Lab::new().unwrap();
    let small = limited("packets = 10, per = \"10m\"");
    let large = small.replace("capacity = 4096", "capacity = 65536");
    let lru = small.replace("\"compact\"", "\"lru\"");
    let mut service = Service::started(&lab, &small).unwrap();
    service.rlctl_ok(&["ban", "198.51.100.9"]).unwrap();
    for toml in [&large, &lru, &small] {
        service.stop("-TERM").unwrap();
        service.configure(toml).unwrap();
        service.start().unwrap();
        let program = Attached::of(&service).unwrap();
        assert_eq!(program.passed(&ipv4(1), 20).unwrap(), 10, "{toml}");
        assert_eq!(program.passed(&ipv4(9), 5).unwrap(), 0, "{toml}");
    }
}

fn limited(limit: &str) -> String {
    format!(
        "[source]\n\
         store = \"compact\"\n\
         capacity = {CAPACITY}\n\
         [policy.default]\n\
         limits = [{{ {limit} }}]\n"
    )
}

fn ipv4(last: u8) -> Vec<u8> {
    Frame::ethernet()
        .ipv4(Ipv4Addr::new(198, 51, 100, last))
        .udp(9)
        .build()
}

/// The answer of the daemon, also where the exit code says that packets are dropped.
fn reported(service: &Service, arguments: &[&str]) -> String {
    service
        .rlctl(&[&["--json"], arguments].concat())
        .unwrap()
        .stdout
}

fn map(service: &Service, name: &str) -> MapStatus {
    let status: Status = serde_json::from_str(&reported(service, &["status"])).unwrap();
    status
        .maps
        .into_iter()
        .find(|map| map.name == name)
        .unwrap()
}
