//! Limits that keep the time of every packet: exact in any window, and no memory where there are
//! none.

use std::{net::Ipv4Addr, thread, time::Duration};

use ratelimit_common::Instant;
use ratelimit_core::api::{Check, MapStatus, Status};
use ratelimit_daemon::clock;
use ratelimit_tests::{
    attached::{self, Attached},
    cpu,
    packet::datagram,
    require_cpus, require_root,
    service::Service,
};

#[test]
fn on_two_cpus_exactly_the_amount_passes_in_any_window() {
    const AMOUNT: usize = 20;
    const WINDOW_NS: u64 = 200_000_000;
    require_root!();
    require_cpus!(2);
    let (_lab, service) = Service::in_lab(&policy(&[&log(AMOUNT, "200ms")], 64)).unwrap();
    let program = Attached::of(&service).unwrap();
    let frame = ipv4(1);
    let send = |on| {
        cpu::pin(on);
        let sent = (0..1000).map(|packet| {
            if packet % 10 == 0 {
                thread::sleep(Duration::from_millis(7));
            }
            let before = clock::now();
            let passed = program.passes(&frame).unwrap();
            Packet {
                before,
                passed,
                after: clock::now(),
            }
        });
        sent.collect::<Vec<_>>()
    };
    let packets: Vec<Packet> = thread::scope(|scope| {
        let workers = [0, 1].map(|on| scope.spawn(move || send(on)));
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let passed: Vec<&Packet> = packets.iter().filter(|packet| packet.passed).collect();
    assert!(
        passed.len() > 2 * AMOUNT,
        "{} are too few to tell",
        passed.len()
    );
    for first in &passed {
        let end = first.before.as_nanos() + WINDOW_NS;
        let within = passed
            .iter()
            .filter(|packet| packet.before >= first.before && packet.after.as_nanos() < end);
        assert!(within.count() <= AMOUNT, "too many in a window");
    }
    for refused in packets.iter().filter(|packet| !packet.passed) {
        let start = refused.before.as_nanos() - WINDOW_NS;
        let before = passed
            .iter()
            .filter(|packet| packet.after.as_nanos() > start && packet.before <= refused.after);
        assert!(
            before.count() >= AMOUNT,
            "a packet was refused while there was room"
        );
    }
}

/// The log becomes longer by a reload, by a start with another file after a kill, or because only
/// another policy gets a longer one.
#[test]
fn a_longer_log_finds_what_was_logged() {
    require_root!();
    for store in ["lru", "compact"] {
        let toml = |amount, more: &str| {
            let toml = policy(&[&log(amount, "10m")], 64);
            toml.replace("logs = 64", &format!("logs = 64\nstore = \"{store}\"")) + more
        };
        let (_lab, mut service) = Service::in_lab(&toml(5, "")).unwrap();
        let passed = |service: &Service, source| {
            let program = Attached::of(service).unwrap();
            program.passed(&ipv4(source), 50).unwrap()
        };
        assert_eq!(passed(&service, 1), 5, "{store}");
        service.reload(&toml(9, "")).unwrap();
        assert_eq!(passed(&service, 1), 4, "{store}");
        assert_eq!(passed(&service, 2), 9, "{store}");
        let used = check(&service, "198.51.100.1").limits[0].used;
        assert_eq!(used, 9, "{store}");
        service.stop("-KILL").unwrap();
        service.configure(&toml(11, "")).unwrap();
        service.start().unwrap();
        assert_eq!([1, 2].map(|it| passed(&service, it)), [2, 2], "{store}");
        let long = log(100, "10m");
        let partner =
            format!("[policy.partner]\nsources = [\"203.0.113.0/24\"]\nlimits = [{long}]\n");
        service.reload(&toml(11, &partner)).unwrap();
        assert_eq!(
            [1, 2, 3].map(|it| passed(&service, it)),
            [0, 0, 11],
            "{store}"
        );
    }
}

#[test]
fn with_more_sources_than_logs_the_latest_are_limited_and_the_forgotten_restart() {
    const LOGS: usize = 64;
    const SOURCES: u8 = 250;
    require_root!();
    let (_lab, service) = Service::in_lab(&policy(&[&log(3, "10m")], LOGS)).unwrap();
    let program = Attached::of(&service).unwrap();
    for source in 0..SOURCES {
        assert_eq!(program.passed(&ipv4(source), 3).unwrap(), 3);
        assert_eq!(program.passed(&ipv4(source), 2).unwrap(), 0, "{source}");
    }
    let remembered = (0..SOURCES).filter(|source| {
        let address = format!("198.51.100.{source}");
        check(&service, &address).limits[0].used > 0
    });
    let remembered = remembered.count();
    assert!((1..=LOGS).contains(&remembered), "{remembered}");
    let stats = service.rlctl_ok(&["stats"]).unwrap();
    assert!(!stats.contains("no-state"), "{stats}");
}

#[test]
fn without_a_log_its_map_is_one_entry_of_one_word() {
    require_root!();
    let (_lab, mut service) = Service::in_lab("[policy.default]\nlimits = []\n").unwrap();
    let map = attached::map(&service, "LOGS").unwrap();
    assert_eq!((map.max_entries(), map.value_size()), (1, 8));
    let empty = status(&service, "LOGS");
    assert!(
        empty.capacity == 1 && empty.memory_bytes < 65_536,
        "{empty:?}"
    );
    service.stop("-TERM").unwrap();
    service
        .configure(&policy(&[&log(100, "1m")], 4096))
        .unwrap();
    service.start().unwrap();
    let map = attached::map(&service, "LOGS").unwrap();
    assert_eq!((map.max_entries(), map.value_size()), (4096, 8 * 101));
    let logs = status(&service, "LOGS");
    assert!(logs.memory_bytes >= 4096 * 8 * 101, "{logs:?}");
}

/// A packet, and the times between which it was judged.
struct Packet {
    before: Instant,
    passed: bool,
    after: Instant,
}

fn policy(limits: &[&str], logs: usize) -> String {
    format!(
        "[policy.default]\nlimits = [{}]\n[source]\nsliding_logs = {logs}\n",
        limits.join(", ")
    )
}

fn log(amount: usize, per: &str) -> String {
    format!("{{ packets = {amount}, per = \"{per}\", algorithm = \"sliding-log\" }}")
}

fn check(service: &Service, address: &str) -> Check {
    service.json(&["check", address]).unwrap()
}

fn status(service: &Service, map: &str) -> MapStatus {
    let status: Status = service.json(&["status"]).unwrap();
    status.maps.into_iter().find(|row| row.name == map).unwrap()
}

fn ipv4(source: u8) -> Vec<u8> {
    let source = Ipv4Addr::new(198, 51, 100, source);
    datagram(source)
}
