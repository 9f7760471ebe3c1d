//! Limits of classes, of wider prefixes and of the node, by the daemon on a real interface.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
};

use ratelimit_core::api::StatsRow;
use ratelimit_tests::{Frame, Lab, lab::Sender, packet::datagram, require_root, service::Service};

#[test]
fn a_flood_that_rotates_inside_a_prefix_is_limited_as_one() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(
        &lab,
        r#"
        [policy.default]
        limits = [{ packets = 9, per = "1h" }]
        [subnet]
        ipv4 = [{ prefix = 24, packets = 50, per = "1h" }]
        ipv6 = [
          { prefix = 56, packets = 20, per = "1h" },
          { prefix = 48, packets = 30, per = "1h", match = "udp" },
        ]
        "#,
    )
    .unwrap();
    for number in 0..100 {
        send(&lab, &datagram(source(number)), 1);
    }
    let first = counted_of(&service, 100);
    assert_eq!((first.passed, first.aggregate_limited), (50, 50));
    // In each of two /56 in one /48, the sources are 30 prefixes of 64 bits.
    for network in 0..2 {
        for number in 0..30 {
            let source = Ipv6Addr::new(0x2001, 0xdb8, 7, network << 8 | number, 0, 0, 0, 1);
            let frame = Frame::ethernet().ipv6(source).udp(53).pad_to(80).build();
            send(&lab, &frame, 1);
        }
    }
    let second = counted_of(&service, 160);
    assert_eq!(
        (second.passed - 50, second.aggregate_limited - 50),
        (30, 30)
    );
    let top = service.rlctl_ok(&["top"]).unwrap();
    for prefix in ["203.0.113.0/24", "2001:db8:7::/56", "2001:db8:7::/48"] {
        assert!(top.contains(prefix), "{prefix} in {top}");
    }
    let said = service.rlctl(&["check", "203.0.113.200"]).unwrap();
    assert_eq!(said.code, 3, "{said:?}");
    let full = "limit of all of 203.0.113.0/24: 50 packets per 1h: 50 used";
    assert!(said.stdout.contains(full), "{said:?}");
}

#[test]
fn a_reload_under_traffic_keeps_what_stays() {
    // The class of the packets that are sent has another name, and the policy another second limit:
    // it gets another place.
    let config = |name: &str, syns: u32| {
        format!(
            r#"
            [class.{name}]
            protocol = "udp"
            destination_ports = [53]
            [policy.default]
            limits = [
              {{ packets = 300, per = "1h", match = "{name}" }},
              {{ packets = {syns}, per = "1h", match = "tcp-syn" }},
            ]
            "#
        )
    };
    let plain = config("dns", 9);
    let everything = config("names", 10)
        + r#"
        [policy.partner]
        sources = ["198.51.100.0/24"]
        limits = [{ packets = 5, per = "1h", match = "icmp" }]
        [subnet]
        ipv4 = [{ prefix = 24, packets = 90_000_000, per = "1h" }]
        [node]
        limits = [{ packets = 90_000_000, per = "1h", match = "udp" }]
        "#;
    require_root!();
    let (lab, service) = Service::in_lab(&plain).unwrap();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Sender::new(&lab.far).unwrap();
            let frame = datagram(source(1));
            while !stop.load(Relaxed) {
                sender.send(&frame).unwrap();
                sent.fetch_add(1, Relaxed);
            }
        });
        let answer = reloads(&service, &[&everything, &plain]);
        stop.store(true, Relaxed);
        answer.unwrap();
    });
    let sent = sent.load(Relaxed);
    let counted = counted_of(&service, sent);
    assert_eq!((counted.passed, counted.unlimited), (300, 0), "{counted:?}");
    assert!(sent > 1000, "{counted:?}");
}

/// Puts each of the configurations in force several times.
fn reloads(service: &Service, configs: &[&str]) -> anyhow::Result<()> {
    for _ in 0..5 {
        for config in configs {
            service.configure(config)?;
            service.rlctl_ok(&["reload"])?;
        }
    }
    Ok(())
}

/// Packets so far, by what became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    passed: u64,
    unlimited: u64,
    limited: u64,
    aggregate_limited: u64,
    node_limited: u64,
}

impl Counted {
    fn packets(&self) -> u64 {
        self.passed + self.limited + self.aggregate_limited + self.node_limited
    }
}

fn counted(service: &Service) -> Counted {
    let mut counted = Counted::default();
    for row in service.json::<Vec<StatsRow>>(&["stats"]).unwrap() {
        let packets = row.packets;
        match row.reason.as_str() {
            "conforming" => counted.passed += packets,
            "unlimited" => {
                counted.passed += packets;
                counted.unlimited += packets;
            }
            "limited" => counted.limited += packets,
            "subnet-limited" => counted.aggregate_limited += packets,
            "node-limited" => counted.node_limited += packets,
            // The kernel says hello to its neighbours.
            "neighbour-discovery" | "not-ip" => {}
            other => panic!("{other}"),
        }
    }
    counted
}

/// Waits until `packets` are counted.
fn counted_of(service: &Service, packets: u64) -> Counted {
    service.wait_for("all packets", || {
        let counted = counted(service);
        (counted.packets() == packets).then_some(counted)
    })
}

fn send(lab: &Lab, frame: &[u8], packets: u64) {
    lab.send(frame, packets).unwrap();
}

/// An address of 203.0.113.0/24.
fn source(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}
