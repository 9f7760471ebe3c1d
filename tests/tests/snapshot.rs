//! The host reboots: usage of long windows is kept.

use std::{fs, net::Ipv4Addr, thread, time::Duration};

use ratelimit_tests::{
    Lab,
    lab::{Receiver, Sender},
    packet::datagram,
    require_root,
    service::Service,
};

const BUSY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const QUIET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 8);
const PARTNER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
/// The longest time until a frame that passed arrives.
const LATE: Duration = Duration::from_millis(300);
/// The window of the partner's policy.
const SHORT: Duration = Duration::from_secs(6);

/// Each has a policy of its own.
const ALGORITHMS: [&str; 4] = [
    "fixed-window",
    "sliding-window",
    "token-bucket",
    "sliding-log",
];

#[test]
fn after_a_reboot_a_quota_is_used_up_until_its_window_ends() {
    require_root!();
    let of = |address: Ipv4Addr, number| Ipv4Addr::from(u32::from(address) + 16 * number);
    let (lab, mut service) = Service::in_lab(&toml(of)).unwrap();
    assert_eq!(passed(&lab, PARTNER, 9), 5);
    for (number, algorithm) in (0..).zip(ALGORITHMS) {
        assert_eq!(passed(&lab, of(BUSY, number), 9), 5, "{algorithm}");
        assert_eq!(passed(&lab, of(QUIET, number), 2), 2, "{algorithm}");
    }
    service.stop("-TERM").unwrap();
    unpin(&service);
    // The host is off for the rest of the partner's window.
    thread::sleep(SHORT);
    service.start().unwrap();
    assert!(service.log().contains("restored the usage"));
    for (number, algorithm) in (0..).zip(ALGORITHMS) {
        assert_eq!(passed(&lab, of(BUSY, number), 3), 0, "{algorithm}");
        assert_eq!(passed(&lab, of(QUIET, number), 9), 3, "{algorithm}");
    }
    assert_eq!(passed(&lab, PARTNER, 9), 5);
}

#[test]
fn after_a_crash_of_the_host_the_last_snapshot_counts() {
    require_root!();
    let toml = "[policy.default]
limits = [{ packets = 5, per = \"1h\" }]
[snapshot]
every = \"1s\"
";
    let (lab, mut service) = Service::in_lab(toml).unwrap();
    assert_eq!(passed(&lab, BUSY, 9), 5);
    let file = service.path("state/usage.snapshot");
    // One of two snapshots taken since began after the packets.
    for _ in 0..2 {
        let taken = || fs::metadata(&file).and_then(|it| it.modified()).ok();
        let before = taken();
        service.wait_until("a snapshot", || taken() != before);
    }
    service.stop("-KILL").unwrap();
    unpin(&service);
    service.start().unwrap();
    assert_eq!(passed(&lab, BUSY, 3), 0);
}

#[test]
fn limits_of_prefixes_destinations_and_the_node_are_restored() {
    require_root!();
    let lab = Lab::new().unwrap();
    let scopes = [
        "[subnet]\nipv4 = [{ prefix = 24, packets = 5, per = \"1h\" }]\n",
        "[destination.\"0.0.0.0/0\"]\nlimits = [{ packets = 5, per = \"1h\" }]\n",
        "[node]\nlimits = [{ packets = 5, per = \"1h\" }]\n",
    ];
    for scope in scopes {
        let toml = format!("[policy.default]\nlimits = []\n{scope}");
        let mut service = Service::started(&lab, &toml).unwrap();
        assert_eq!(passed(&lab, BUSY, 9), 5, "{scope}");
        reboot(&mut service);
        assert_eq!(passed(&lab, QUIET, 3), 0, "{scope}");
    }
}

#[test]
fn pinned_maps_are_newer_than_a_snapshot() {
    require_root!();
    let toml = "[policy.default]\nlimits = [{ packets = 5, per = \"1h\" }]\n";
    let (lab, mut service) = Service::in_lab(toml).unwrap();
    assert_eq!(passed(&lab, BUSY, 2), 2);
    service.stop("-TERM").unwrap();
    assert_eq!(passed(&lab, BUSY, 2), 2);
    service.start().unwrap();
    assert_eq!(passed(&lab, BUSY, 2), 1);
    assert!(!service.log().contains("restored the usage"));
}

#[test]
fn a_damaged_snapshot_is_reported_and_prevents_no_start() {
    require_root!();
    let toml = "[policy.default]\nlimits = [{ packets = 5, per = \"1h\" }]\n";
    let (lab, mut service) = Service::in_lab(toml).unwrap();
    assert_eq!(passed(&lab, BUSY, 9), 5);
    service.stop("-TERM").unwrap();
    unpin(&service);
    let file = service.path("state/usage.snapshot");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    service.start().unwrap();
    assert_eq!(passed(&lab, BUSY, 9), 5);
    let events = service.wait_for_event("usage was not restored");
    assert!(events.contains("usage.snapshot"), "{events}");
    // The next one is sound.
    reboot(&mut service);
    assert_eq!(passed(&lab, BUSY, 9), 0);
}

/// A policy for each algorithm, and the partner's.
fn toml(of: impl Fn(Ipv4Addr, u32) -> Ipv4Addr) -> String {
    let mut toml = format!(
        "[policy.default]
limits = []
[policy.partner]
sources = [\"{PARTNER}\"]
limits = [{{ packets = 5, per = \"{}s\" }}]
[snapshot]
min_window = \"1s\"
",
        SHORT.as_secs()
    );
    for (number, algorithm) in (0..).zip(ALGORITHMS) {
        let [busy, quiet] = [BUSY, QUIET].map(|address| of(address, number));
        let burst = if algorithm == "token-bucket" {
            ", burst = 5"
        } else {
            ""
        };
        let policy = format!(
            "[policy.{algorithm}]
sources = [\"{busy}\", \"{quiet}\"]
limits = [{{ packets = 5, per = \"1h\", algorithm = \"{algorithm}\"{burst} }}]
"
        );
        toml.push_str(&policy);
    }
    toml
}

/// Stops the daemon, and starts it as after a boot.
fn reboot(service: &mut Service) {
    service.stop("-TERM").unwrap();
    unpin(service);
    service.start().unwrap();
}

/// Removes what a boot would: the pins, and with them maps and programs.
fn unpin(service: &Service) {
    fs::remove_dir_all(service.pins()).unwrap();
}

/// Sends packets of a source, and counts those that arrive.
fn passed(lab: &Lab, source: Ipv4Addr, packets: usize) -> usize {
    let mut receiver = Receiver::new(&lab.near).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    for _ in 0..packets {
        sender.send(&datagram(source)).unwrap();
    }
    let mut arrived = 0;
    while let Some(frame) = receiver.next(LATE).unwrap() {
        arrived += usize::from(frame.get(26..30) == Some(&source.octets()));
    }
    arrived
}
