//! `rlctl check` says of a packet what the program then does with it.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    thread,
    time::{Duration, Instant},
};

use ratelimit_core::api::Check;
use ratelimit_tests::{
    Frame, PATIENCE, attached::Attached, lab::INTERFACE, require_root, service::Service,
};

const CONFIG: &str = r#"
[policy.default]
limits = [
  { packets = 100, per = "1h" },
  { packets = 2, per = "1h", match = { protocol = "udp", destination_ports = [53] } },
  { packets = 1, per = "1h", match = "tcp-syn" },
]
[node]
limits = [{ packets = 3, per = "1h", match = "icmp" }]
"#;
const SOURCE: &str = "203.0.113.9";
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 1, 2, 3, 4);
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

#[test]
fn what_is_said_of_a_packet_is_what_happens_to_it() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let program = Attached::of(&service).unwrap();
    let frame = || Frame::ethernet().ipv4(Ipv4Addr::new(203, 0, 113, 9));
    let frame_v6 = || Frame::ethernet().ipv6(SOURCE_V6);
    let (source, source_v6) = (SOURCE.to_owned(), SOURCE_V6.to_string());
    let packets = [
        ("--proto udp --dport 53", frame().udp(53).build(), &source),
        ("--proto udp --dport 54", frame().udp(54).build(), &source),
        (
            "--dport 443 --flags syn",
            frame().tcp(443, SYN).build(),
            &source,
        ),
        (
            "--proto tcp --dport 443",
            frame().tcp(443, ACK).build(),
            &source,
        ),
        (
            "--dport 443 --flags syn",
            frame_v6().tcp(443, SYN).build(),
            &source_v6,
        ),
        ("--proto icmp", frame_v6().icmpv6(128).build(), &source_v6),
    ];
    let mut seen = [false; 2];
    for _ in 0..4 {
        for (arguments, frame, source) in &packets {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            let asked = [&["check", source], &arguments[..]].concat();
            let said = service.rlctl(&asked).unwrap();
            let passed = program.passed(frame, 1).unwrap();
            assert_eq!(said.code == 0, passed == 1, "{asked:?}: {said:?}");
            seen[usize::from(passed == 1)] = true;
        }
    }
    assert_eq!(seen, [true; 2]);
    let said = service.rlctl(&["check", SOURCE]).unwrap();
    for reported in [
        "  tcp-syn: dropped (limited: 1 packet per 1h of tcp-syn, room in 59m",
        "  icmp: dropped (node-limited: 3 packets per 1h of icmp, room in 59m",
        "refused by limits of the node: 1 packet, of all sources",
    ] {
        assert!(said.stdout.contains(reported), "{said:?}");
    }
    assert_eq!(said.code, 3);
    // Drops are told with what they were, and with the whole address of who sent them.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = service.rlctl(&["check", &source_v6]).unwrap();
        let counts = [
            " (tcp to 2001:db8:ffff::1 port 443 from port 12345 with syn) on rl0: limited, ",
            " (icmpv6 to 2001:db8:ffff::1) on rl0: node-limited, ",
        ]
        .map(|drop| {
            said.stdout
                .matches(&format!("dropped {source_v6}{drop}"))
                .count()
        });
        if counts == [1; 2] {
            break;
        }
        // A sample of the drops becomes events, and an event takes a moment to the daemon.
        assert!(
            counts.iter().all(|count| *count <= 1) && Instant::now() < deadline,
            "{counts:?}: {said:?}"
        );
        thread::sleep(Duration::from_millis(20));
        let (_, refused, _) = &packets[5];
        assert_eq!(program.passed(refused, 1).unwrap(), 0);
    }
}

#[test]
fn an_interface_and_what_is_no_packet_are_told() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let on = |name| service.rlctl(&["check", SOURCE, "--iface", name]).unwrap();
    assert_eq!(on(INTERFACE).code, 0);
    let wrong = on("eth9");
    assert_eq!(wrong.code, 1);
    assert!(
        wrong
            .stderr
            .contains("no interface `eth9`: its packets pass")
            && wrong.stderr.contains(INTERFACE),
        "{wrong:?}"
    );
    let port = service.rlctl(&["check", SOURCE, "--dport", "443"]).unwrap();
    assert!(port.stderr.contains("name the protocol too"), "{port:?}");
    service.rlctl_ok(&["detach"]).unwrap();
    let check: Check = service
        .json(&["check", SOURCE, "--iface", INTERFACE])
        .unwrap();
    assert_eq!(
        (check.action.as_str(), check.reason.as_str()),
        ("pass", "not-enforced")
    );
}
