//! One customer's limits change at run time, while traffic flows: the others keep what they have used, also over a restart.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use ratelimit_tests::{
    Lab,
    lab::{Receiver, Sender},
    packet::datagram,
    require_root,
    service::Service,
};

const CUSTOMER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(203, 0, 114, 7);
/// Keeps packets coming, and has a policy of its own.
const OTHERS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// Sent behind the others, to know that they are through.
const LAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

const TOML: &str = r#"
[policy.default]
limits = [{ packets = 20, per = "1d" }]
[policy.others]
sources = ["198.51.100.0/24"]
limits = [{ packets = 1_000_000, per = "1s" }]
"#;

#[test]
fn one_customer_changes_and_the_others_keep_what_they_have_used() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| send_until(&lab, &stop));
        let _stop = Stop(&stop);
        for source in [CUSTOMER, NEIGHBOUR] {
            send(&lab, source, 15);
        }
        let set = [
            "limit",
            "set",
            "--prefix",
            "203.0.113.0/24",
            "--packets",
            "40",
            "--per",
            "1d",
        ];
        service.rlctl_ok(&set).unwrap();
        // The customer keeps what it has used: of 50 packets 25 pass, and for the neighbour the 5 that were left.
        for source in [CUSTOMER, NEIGHBOUR] {
            send(&lab, source, 50);
        }
        check(&service, CUSTOMER, "40 packets per 1d", 40);
        check(&service, NEIGHBOUR, "20 packets per 1d", 20);

        // Another amount for the same customer keeps what it has used: the words mean the same.
        let mut more = set;
        more[5] = "60";
        service.rlctl_ok(&more).unwrap();
        check(&service, CUSTOMER, "60 packets per 1d", 40);
        send(&lab, CUSTOMER, 50);
        check(&service, CUSTOMER, "60 packets per 1d", 60);
        check(&service, NEIGHBOUR, "20 packets per 1d", 20);
        assert!(!traffic.is_finished(), "traffic flowed all the time");
    });

    service.stop("-KILL").unwrap();
    service.start().unwrap();
    check(&service, CUSTOMER, "60 packets per 1d", 60);
    check(&service, NEIGHBOUR, "20 packets per 1d", 20);

    // What it has used under its own limits counts for those of the policy around.
    let said = service.rlctl_ok(&["limit", "rm", "--prefix", "203.0.113.0/24"]);
    assert!(!said.unwrap().contains("reset"));
    send(&lab, CUSTOMER, 50);
    check(&service, CUSTOMER, "20 packets per 1d", 60);
}

/// Ends the traffic, also when an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn send_until(lab: &Lab, stop: &AtomicBool) {
    let sender = Sender::new(&lab.far).unwrap();
    while !stop.load(Relaxed) {
        sender.send(&datagram(OTHERS)).unwrap();
        thread::sleep(Duration::from_micros(500));
    }
}

/// Sends packets, and waits until one that comes behind them has arrived.
fn send(lab: &Lab, source: Ipv4Addr, packets: u32) {
    let mut receiver = Receiver::new(&lab.near).unwrap();
    lab.send(&datagram(source), packets.into()).unwrap();
    lab.send(&datagram(LAST), 1).unwrap();
    let arrives = |_| {
        let arrived = receiver.next(Duration::from_secs(10)).unwrap().unwrap();
        arrived[26..30] == LAST.octets()
    };
    assert!((0..10_000).any(arrives), "the last packet did not arrive");
}

fn check(service: &Service, source: Ipv4Addr, limit: &str, used: u64) {
    let address = source.to_string();
    let answer: serde_json::Value = service.json(&["check", &address]).unwrap();
    let text = service.rlctl(&["check", &address]).unwrap().stdout;
    assert!(text.contains(limit), "{text}");
    assert_eq!(answer["limits"][0]["used"], used, "{source}: {text}");
}
