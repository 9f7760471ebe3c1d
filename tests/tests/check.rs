//! `rlctl check` predicts what the program does with a packet.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
};

use ratelimit_core::api::{Check, TopSource};
use ratelimit_tests::{
    Frame, Lab, attached::Attached, lab::INTERFACE, require_root, service::Service,
};
use serde_json::Value;

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
/// The usage of the buckets of a source and of the node.
const BUCKETS: &str = r#"
[policy.default]
limits = [{ packets = 10, per = "1h", algorithm = "token-bucket" }]
[node]
limits = [{ packets = 20, per = "1h", algorithm = "token-bucket" }]
"#;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

#[test]
fn what_runtime_changes_cover_of_the_configuration_is_reported_too() {
    require_root!();
    let toml = "[policy.default]\nlimits = []\n[allow]\nsources = [\"192.0.2.10\"]\n";
    let (_lab, service) = Service::in_lab(toml).unwrap();
    service
        .rlctl_ok(&["allow", "add", "192.0.2.10", "--for", "1h"])
        .unwrap();
    let allows: Value = service.json(&["list", "allows"]).unwrap();
    let rows = allows.as_array().unwrap().iter();
    let own = rows.filter(|row| row["prefix"] == "192.0.2.10");
    assert_eq!(own.count(), 2, "{allows}");
    let check: Value = service.json(&["check", "192.0.2.10"]).unwrap();
    assert_eq!(check["until"], Value::Null, "{check}");

    let limit = ["limit", "set", "--packets", "5", "--per", "1h", "--observe"];
    service.rlctl_ok(&limit).unwrap();
    let prefix = ["--prefix", "198.51.100.0/24", "--only"];
    service.rlctl_ok(&[&limit[..], &prefix].concat()).unwrap();
    let shown = service.rlctl_ok(&["config", "show"]).unwrap();
    for expected in [
        "\npolicy.default.observe = true\n",
        "policy.198.51.100.0/24.observe = true\n",
        "policy.198.51.100.0/24.only = true\n",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

/// A bucket uses a clock that starts with its limit, and another one for each other rate.
#[test]
fn what_was_taken_out_of_a_bucket_is_reported_also_after_a_change_of_its_rate_and_a_kill() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(BUCKETS).unwrap();
    let program = Attached::of(&service).unwrap();
    let frame = Frame::ethernet().ipv4(Ipv4Addr::new(203, 0, 113, 9));
    assert_eq!(program.passed(&frame.udp(53).build(), 6).unwrap(), 6);
    let check = |service: &Service, step: &str| {
        let said = service.rlctl(&["check", SOURCE]).unwrap().stdout;
        assert_eq!(said.matches(": 6 of ").count(), 2, "{step}: {said}");
    };
    check(&service, "as it is");
    let other = BUCKETS.replace("packets = 10", "packets = 15");
    service
        .reload(&other.replace("packets = 20", "packets = 25"))
        .unwrap();
    check(&service, "another rate");
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    check(&service, "the next daemon");
}

/// Sources of IPv6 are prefixes of 64 bits.
#[test]
fn what_a_policy_within_a_source_refuses_is_reported_by_its_name() {
    require_root!();
    let text = "[policy.default]\nlimits = [{ packets = 100, per = \"1h\" }]\n";
    let (_lab, service) = Service::in_lab(text).unwrap();
    let source = SOURCE_V6.to_string();
    let set = ["limit", "set", "--prefix", &source];
    let set = [&set[..], &["--packets", "3", "--per", "1h", "--observe"]].concat();
    service.rlctl_ok(&set).unwrap();
    let program = Attached::of(&service).unwrap();
    let frame = Frame::ethernet().ipv6(SOURCE_V6).udp(9).build();
    assert_eq!(program.passed(&frame, 6).unwrap(), 6);
    let check = service.rlctl(&["check", &source]).unwrap().stdout;
    for said in [
        "limited: 3 packets per 1h",
        "would drop",
        "of policy 2001:db8::",
    ] {
        assert!(check.contains(said), "{said}: {check}");
    }
}

/// The second of two sources has no state, and exceeds a budget of one.
#[test]
fn what_is_over_the_budget_for_new_sources_is_reported() {
    require_root!();
    for store in ["lru", "compact"] {
        for (over_budget, action, passed) in [
            ("drop", "drop", 0),
            ("pass", "pass", 9),
            ("aggregate", "pass", 5),
        ] {
            let config = format!(
                "[source]\n\
                 store = \"{store}\"\n\
                 new_sources = {{ count = 1, per = \"1h\", over_budget = \"{over_budget}\" }}\n\
                 [policy.default]\n\
                 limits = [{{ packets = 5, per = \"1h\" }}]\n"
            );
            let (_lab, service) = Service::in_lab(&config).unwrap();
            let program = Attached::of(&service).unwrap();
            let frame = |last| {
                Frame::ethernet()
                    .ipv4(Ipv4Addr::new(203, 0, 113, last))
                    .udp(9)
                    .build()
            };
            let check = |address: &str| {
                let check: Check = service.json(&["check", address]).unwrap();
                (check.action, check.reason)
            };
            let is = |action: &str, reason: &str| (action.to_owned(), reason.to_owned());
            let step = format!("{store}, {over_budget}");
            assert_eq!(check("203.0.113.9"), is("pass", "conforming"), "{step}");
            assert_eq!(program.passed(&frame(9), 1).unwrap(), 1, "{step}");
            assert_eq!(check("203.0.113.9"), is("pass", "conforming"), "{step}");
            assert_eq!(check("203.0.113.10"), is(action, "new-sources"), "{step}");
            assert_eq!(program.passed(&frame(10), 9).unwrap(), passed, "{step}");
            let last = if over_budget == "pass" {
                "pass"
            } else {
                "drop"
            };
            assert_eq!(check("203.0.113.10"), is(last, "new-sources"), "{step}");
            assert_eq!(program.passed(&frame(9), 9).unwrap(), 4, "{step}");
            assert_eq!(check("203.0.113.9"), is("drop", "limited"), "{step}");
        }
    }
}

/// The dry run of a policy holds for new sources over the budget, too.
#[test]
fn what_a_dry_run_lets_pass_over_the_budget_is_not_told_as_dropped() {
    require_root!();
    let config = "[source]\nnew_sources = { count = 1, per = \"1h\", over_budget = \"drop\" }\n\
                  [policy.default]\nlimits = [{ packets = 5, per = \"1h\" }]\nobserve = true\n";
    let (_lab, service) = Service::in_lab(config).unwrap();
    let program = Attached::of(&service).unwrap();
    for last in [9, 10] {
        let source = Ipv4Addr::new(203, 0, 113, last);
        let frame = Frame::ethernet().ipv4(source).udp(9).build();
        assert_eq!(program.passed(&frame, 3).unwrap(), 3, "{source}");
    }
    let said = service.wait_for("the sample", || {
        let said = service.rlctl(&["check", "203.0.113.10"]).unwrap().stdout;
        said.contains("seen: ").then_some(said)
    });
    assert!(said.contains(" would drop 203.0.113.10 "), "{said}");
}

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
        "  tcp-syn: dropped (limited: 1 packet per 1h of tcp-syn, next packet in 59m",
        "  icmp: dropped (node-limited: 3 packets per 1h of icmp, next packet in 59m",
        "drops by limits of the node: 1 packet",
    ] {
        assert!(said.stdout.contains(reported), "{said:?}");
    }
    assert_eq!(said.code, 3);
    // Drops are reported with their packets, and with the full address of the sender.
    let refusals = [
        " (tcp to 2001:db8:ffff::1 port 443 from port 12345 with syn) on rl0: limited, ",
        " (icmpv6 to 2001:db8:ffff::1) on rl0: node-limited, ",
    ];
    // A sample of the drops becomes events, and an event takes a moment to the daemon.
    let seen = service.wait_for("both drops", || {
        let said = service.rlctl(&["check", &source_v6]).unwrap().stdout;
        let counts =
            refusals.map(|drop| said.matches(&format!("dropped {source_v6}{drop}")).count());
        if counts.contains(&0) {
            let (_, refused, _) = &packets[5];
            assert_eq!(program.passed(refused, 1).unwrap(), 0);
            return None;
        }
        Some(counts)
    });
    assert_eq!(seen, [1; 2]);
}

const SHARED: &str = r#"
[policy.default]
limits = []
[subnet]
observe = false
ipv4 = [{ prefix = 24, packets = 3, per = "1h" }]
ipv6 = [{ prefix = 48, packets = 2, per = "1h" }]
[destination."198.51.100.7"]
limits = [{ packets = 4, per = "1h" }]
source_limits = [{ packets = 1, per = "1h" }]
"#;

#[test]
fn what_limits_refused_that_many_share_is_reported_and_survives_reload_and_kill() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::started(&lab, SHARED).unwrap();
    let (neighbour, victim) = (
        Ipv4Addr::new(203, 0, 113, 10),
        Ipv4Addr::new(198, 51, 100, 7),
    );
    let [elsewhere, other] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 7)];
    let to = |source: Ipv4Addr, destination: Ipv4Addr| {
        let mut frame = Frame::ethernet().ipv4(source).udp(9).build();
        frame[30..34].copy_from_slice(&destination.octets());
        frame
    };
    let send = |service: &Service, frame: &[u8], packets: usize| {
        Attached::of(service)
            .unwrap()
            .passed(frame, packets)
            .unwrap()
    };
    assert_eq!(send(&service, &to(neighbour, other), 7), 3);
    let frame_v6 = Frame::ethernet().ipv6(SOURCE_V6).udp(9).build();
    assert_eq!(send(&service, &frame_v6, 5), 2);
    // One packet of each passes; the destination has no room for the fifth.
    for last in 1..6 {
        let source = Ipv4Addr::new(10, 0, last, 1);
        let passed = usize::from(last < 5);
        assert_eq!(send(&service, &to(source, victim), 3), passed, "{source}");
    }
    let refused = |service: &Service, arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let asked = [&["--json", "check"], &arguments[..]].concat();
        let check: Check = serde_json::from_str(&service.rlctl(&asked).unwrap().stdout).unwrap();
        let shared = check.wider.iter().map(|it| it.refused_packets);
        shared.collect::<Vec<_>>()
    };
    let all = |service: &Service| {
        assert_eq!(refused(service, "203.0.113.99"), [Some(4)]);
        assert_eq!(refused(service, "192.0.2.9"), [Some(0)], "another /24");
        assert_eq!(refused(service, "2001:db8::9"), [Some(3)]);
        let to = |source| refused(service, &format!("{source} --to {victim}"));
        // The total limit refused three packets of the last source, one each.
        assert_eq!(
            to("10.0.1.9"),
            [Some(0), Some(3), Some(0)],
            "another source"
        );
        assert_eq!(to("10.0.1.1"), [Some(0), Some(3), Some(2)]);
        assert_eq!(to("10.0.5.1"), [Some(0), Some(3), Some(0)]);
    };
    all(&service);
    // The sources contain no placeholder addresses.
    let top = service.rlctl_ok(&["--json", "top"]).unwrap();
    assert!(!top.contains("\"ff"), "{top}");
    service
        .configure(&SHARED.replace("packets = 3", "packets = 2"))
        .unwrap();
    service.rlctl_ok(&["reload"]).unwrap();
    all(&service);
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    all(&service);
    assert_eq!(send(&service, &to(neighbour, other), 2), 0);
    assert_eq!(refused(&service, "203.0.113.99"), [Some(6)]);
    assert_eq!(send(&service, &to(elsewhere, other), 1), 1);
    // A dry run counts what it would refuse.
    service
        .configure(&SHARED.replace("observe = false", "observe = true"))
        .unwrap();
    service.rlctl_ok(&["reload"]).unwrap();
    assert_eq!(send(&service, &to(neighbour, other), 2), 2);
    assert_eq!(refused(&service, "203.0.113.99"), [Some(8)]);
    let top: Vec<TopSource> =
        serde_json::from_str(&service.rlctl_ok(&["--json", "top"]).unwrap()).unwrap();
    let rows = top
        .iter()
        .map(|row| (row.source.to_string(), row.refused_packets));
    let prefixes: BTreeMap<String, u64> = rows.filter(|(row, _)| row.contains("/24")).collect();
    let expected = [("192.0.2.0/24", 0), ("203.0.113.0/24", 8)];
    for (prefix, packets) in expected {
        assert_eq!(prefixes.get(prefix), Some(&packets), "{top:?}");
    }
    let said = service
        .rlctl(&["check", "10.0.1.1", "--to", "198.51.100.7"])
        .unwrap();
    for part in [
        "drops by limits of all traffic to 198.51.100.7: 3 packets",
        "drops by limits of 10.0.1.1 to 198.51.100.7: 2 packets",
    ] {
        assert!(said.stdout.contains(part), "{said:?}");
    }
}

#[test]
fn an_interface_and_what_is_no_packet_are_reported() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let on = |name| service.rlctl(&["check", SOURCE, "--iface", name]).unwrap();
    assert_eq!(on(INTERFACE).code, 0);
    let wrong = on("eth9");
    assert_eq!(wrong.code, 1);
    assert!(
        wrong
            .stderr
            .contains("interface `eth9` is not configured: its packets pass")
            && wrong.stderr.contains(INTERFACE),
        "{wrong:?}"
    );
    let port = service.rlctl(&["check", SOURCE, "--dport", "443"]).unwrap();
    assert!(port.stderr.contains("add the protocol"), "{port:?}");
    service.rlctl_ok(&["detach"]).unwrap();
    let check: Check = service
        .json(&["check", SOURCE, "--iface", INTERFACE])
        .unwrap();
    assert_eq!(
        (check.action.as_str(), check.reason.as_str()),
        ("pass", "not-enforced")
    );
}
