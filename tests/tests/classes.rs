//! Classes of every header: what nftables and XDP-Firewall match, and packets just beside it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ratelimit_core::{api::Check, class::BUILT_IN};
use ratelimit_tests::{
    Frame, Lab,
    attached::Attached,
    packet::{ACK, ETHERNET_BYTES, Ipv4Options, RST, SYN},
    require_root,
    service::Service,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 1, 2, 3, 4);

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;

/// A class, the equivalent rule of nftables, and frames that belong to it or do not.
struct Rule {
    class: &'static str,
    nft: &'static str,
    matched: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
}

fn rules() -> Vec<Rule> {
    let mut rules = rules_of_headers();
    rules.extend(rules_of_packets());
    rules
}

/// Rules of wide classes, separate because they would contain the narrower ones.
fn wide_rules() -> Vec<Rule> {
    let v4 = || Frame::ethernet().ipv4(SOURCE);
    let v6 = || Frame::ethernet().ipv6(SOURCE_V6);
    let part = |more, offset, protocol| fragment(more, offset).protocol(protocol, &[1; 64]).build();
    let whole = |protocol| v4().protocol(protocol, &[1; 64]).build();
    vec![
        Rule {
            class: "fragment = \"first\"\nprotocol = \"sctp\"",
            nft: "ip frag-off & 0x3fff == 0x2000 meta l4proto sctp",
            matched: vec![part(true, 0, 132)],
            others: vec![part(true, 8, 132), part(false, 8, 132), whole(132)],
        },
        Rule {
            class: "fragment = true\nprotocol = \"gre\"",
            nft: "ip frag-off & 0x3fff != 0 meta l4proto gre",
            matched: vec![part(true, 0, 47), part(true, 8, 47), part(false, 8, 47)],
            others: vec![whole(47), part(true, 0, 4)],
        },
        Rule {
            class: "fragment = false\nprotocol = \"esp\"",
            nft: "ip frag-off & 0x3fff == 0 meta l4proto esp",
            matched: vec![whole(50)],
            others: vec![part(true, 0, 50), part(false, 8, 50), whole(51)],
        },
        Rule {
            class: "protocol = \"icmpv6\"\nicmp_type = [128, \"140-255\"]",
            nft: "icmpv6 type { 128, 140-255 }",
            matched: vec![v6().icmpv6(128).build(), v6().icmpv6(140).build()],
            others: vec![
                v6().icmpv6(129).build(),
                v6().icmpv6(139).build(),
                v4().icmp(128).build(),
            ],
        },
        Rule {
            class: "protocol = [\"udp\", \"tcp\"]\ndestination_ports = [\"5000-5010\"]",
            nft: "th dport 5000-5010",
            matched: vec![
                v4().udp(5000).build(),
                v6().udp(5010).build(),
                v4().tcp(5005, ACK).build(),
            ],
            others: vec![v4().udp(4999).build(), v4().tcp(5011, ACK).build()],
        },
    ]
}

/// A built-in class, and frames that belong to it and that do not.
type BuiltIn = (&'static str, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn built_in_classes() -> Vec<BuiltIn> {
    let mut classes = classes_of_packets();
    classes.extend(classes_of_reflections());
    classes
}

fn classes_of_packets() -> Vec<BuiltIn> {
    let v4 = || Frame::ethernet().ipv4(SOURCE);
    let v6 = || Frame::ethernet().ipv6(SOURCE_V6);
    let of = |source: [u8; 4]| Frame::ethernet().ipv4(source.into()).udp(9).build();
    let of_v6 = |source: &str| {
        Frame::ethernet()
            .ipv6(source.parse().unwrap())
            .udp(9)
            .build()
    };
    let tcp = |flags| v4().tcp(80, flags).build();
    let land = {
        let mut frame = v4().udp(9).build();
        frame.copy_within(
            ETHERNET_BYTES + 16..ETHERNET_BYTES + 20,
            ETHERNET_BYTES + 12,
        );
        frame
    };
    let land_v6 = {
        let mut frame = v6().udp(9).build();
        frame.copy_within(ETHERNET_BYTES + 24..ETHERNET_BYTES + 40, ETHERNET_BYTES + 8);
        frame
    };
    vec![
        (
            "tcp",
            vec![tcp(ACK), v6().tcp(80, SYN).build()],
            vec![v4().udp(9).build()],
        ),
        ("udp", vec![v4().udp(9).build()], vec![tcp(ACK)]),
        (
            "icmp",
            vec![v4().icmp(8).build(), v6().icmpv6(128).build()],
            vec![tcp(ACK)],
        ),
        ("tcp-syn", vec![tcp(SYN)], vec![tcp(SYN | ACK), tcp(ACK)]),
        (
            "tcp-syn-ack",
            vec![tcp(SYN | ACK)],
            vec![tcp(SYN), tcp(ACK)],
        ),
        (
            "tcp-rst",
            vec![tcp(RST), tcp(RST | ACK)],
            vec![tcp(FIN | ACK)],
        ),
        (
            "tcp-invalid",
            vec![tcp(0), tcp(SYN | FIN)],
            vec![tcp(SYN), tcp(FIN | ACK)],
        ),
        (
            "fragments",
            vec![
                fragment(true, 0).protocol(17, &[1; 64]).build(),
                fragment(false, 8).protocol(17, &[1; 64]).build(),
            ],
            vec![v4().udp(9).build()],
        ),
        (
            "later-fragments",
            vec![fragment(false, 8).protocol(17, &[1; 64]).build()],
            vec![fragment(true, 0).protocol(17, &[1; 64]).build()],
        ),
        (
            "land",
            vec![land, land_v6],
            vec![v4().udp(9).build(), v6().udp(9).build()],
        ),
        (
            "bogons",
            vec![
                of([0, 1, 2, 3]),
                of([127, 0, 0, 1]),
                of([240, 0, 0, 1]),
                of_v6("::1"),
                of_v6("::ffff:192.0.2.1"),
                of_v6("100::1"),
            ],
            vec![
                of([10, 0, 0, 1]),
                of([169, 254, 1, 1]),
                of([126, 0, 0, 1]),
                of_v6("2001:db8::1"),
                of_v6("fc00::1"),
            ],
        ),
        ("source-port-0", vec![answer(0, 40)], vec![answer(1, 40)]),
        (
            "tcp-christmas",
            vec![tcp(FIN | PSH | URG), tcp(SYN | FIN | PSH | URG)],
            vec![
                tcp(FIN | PSH | ACK),
                tcp(FIN | PSH | URG | ACK),
                tcp(FIN | URG),
            ],
        ),
    ]
}

fn classes_of_reflections() -> Vec<BuiltIn> {
    vec![
        (
            "reflection",
            vec![answer(53, 90), answer(37_810, 90)],
            vec![answer(443, 90)],
        ),
        (
            "reflection-dns",
            vec![answer(53, 1281), answer(53, 1500)],
            vec![answer(53, 1280), answer(54, 1500)],
        ),
        (
            "reflection-ntp",
            vec![answer(123, 108), answer(123, 468), answer(123, 508)],
            vec![answer(123, 76), answer(123, 467), answer(124, 468)],
        ),
        (
            "reflection-memcached",
            vec![answer(11_211, 1400)],
            vec![answer(11_211, 36), answer(11_210, 1400)],
        ),
        (
            "reflection-ssdp",
            vec![answer(1900, 300)],
            vec![answer(1900, 127), answer(1901, 300)],
        ),
        (
            "reflection-cldap",
            vec![answer(389, 1500)],
            vec![answer(389, 250), answer(390, 1500)],
        ),
        (
            "reflection-chargen",
            vec![answer(19, 102)],
            vec![answer(19, 28), answer(20, 102)],
        ),
        (
            "reflection-snmp",
            vec![answer(161, 1400)],
            vec![answer(161, 484), answer(162, 1400)],
        ),
        (
            "reflection-portmap",
            vec![answer(111, 500)],
            vec![answer(111, 56), answer(112, 500)],
        ),
        (
            "reflection-ws-discovery",
            vec![answer(3702, 700)],
            vec![answer(3702, 400), answer(3703, 700)],
        ),
        (
            "reflection-ard",
            vec![answer(3283, 1062)],
            vec![answer(3283, 60), answer(3284, 1062)],
        ),
    ]
}

/// Returns a UDP packet from a port, with this length of the IP packet.
fn answer(port: u16, bytes: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    let mut payload = vec![high, low, 0x99, 0x99];
    payload.resize(usize::from(bytes) - 20, 0);
    let frame = Frame::ethernet().ipv4(SOURCE);
    frame.protocol(17, &payload).build()
}

/// Each class alone: some of them share packets.
#[test]
fn a_built_in_class_has_the_packets_that_its_name_says() {
    require_root!();
    check_built_in(4);
}

#[test]
#[ignore = "thorough"]
fn every_built_in_class_has_the_packets_that_its_name_says() {
    require_root!();
    check_built_in(1);
}

/// Checks every `one_of`th class. That each has packets is checked for all.
fn check_built_in(one_of: usize) {
    let (_lab, service) = Service::in_lab("[policy.default]\nlimits = []\n").unwrap();
    let mut left: Vec<&str> = BUILT_IN
        .into_iter()
        .filter(|name| *name != "other")
        .collect();
    for (number, (name, matched, others)) in built_in_classes().into_iter().enumerate() {
        left.retain(|it| *it != name);
        if !number.is_multiple_of(one_of) {
            continue;
        }
        let class = format!("[policy.default]\nlimits = []\n[class.{name}]\naction = \"drop\"\n");
        service.reload(&class).unwrap();
        let program = Attached::of(&service).unwrap();
        let dropped = |frame: &Vec<u8>| program.passed(frame, 1).unwrap() == 0;
        assert!(matched.iter().all(dropped), "{name}");
        assert!(!others.iter().any(dropped), "{name}");
    }
    assert!(left.is_empty(), "no packets of {left:?}");
}

/// Rules of IP, TCP and ICMP headers.
fn rules_of_headers() -> Vec<Rule> {
    let v4 = || Frame::ethernet().ipv4(SOURCE);
    let v6 = || Frame::ethernet().ipv6(SOURCE_V6);
    let tcp = |flags| v4().tcp(80, flags).build();
    let ttl = |ttl, frame: Frame| with_byte(frame, 8, ttl);
    let service = |service, frame: Frame| with_byte(frame, 1, service);
    vec![
        Rule {
            class: "tcp = \"fin,psh,urg / fin,syn,rst,psh,ack,urg\"",
            nft: "tcp flags & (fin|syn|rst|psh|ack|urg) == fin|psh|urg",
            matched: vec![
                tcp(FIN | PSH | URG),
                tcp(FIN | PSH | URG | 0x40),
                v6().tcp(80, FIN | PSH | URG).build(),
            ],
            others: vec![tcp(FIN | PSH | URG | ACK), tcp(FIN | PSH | ACK), tcp(ACK)],
        },
        Rule {
            class: "tcp = \"rst\"\ndestination_ports = [443]",
            nft: "tcp flags & rst == rst tcp dport 443",
            matched: vec![v4().tcp(443, RST | ACK).build(), v6().tcp(443, RST).build()],
            others: vec![v4().tcp(443, ACK).build(), v4().tcp(444, RST).build()],
        },
        Rule {
            class: "tcp = \"syn-ack\"\nttl = [\"60-63\"]",
            nft: "tcp flags & (syn|ack) == syn|ack ip ttl 60-63",
            matched: vec![ttl(63, v4().tcp(80, SYN | ACK))],
            others: vec![
                ttl(64, v4().tcp(80, SYN | ACK)),
                ttl(63, v4().tcp(80, SYN)),
                ttl(59, v4().tcp(80, SYN | ACK)),
            ],
        },
        Rule {
            class: "protocol = \"udp\"\nlength = [1400]\nttl = [\"0-20\"]",
            nft: "meta l4proto udp ip length 1400 ip ttl 0-20",
            matched: vec![
                ttl(20, v4().udp(9).pad_to(1_414)),
                with_byte_v6(v6().udp(9).pad_to(1_414), 7, 3),
            ],
            others: vec![
                ttl(21, v4().udp(9).pad_to(1_414)),
                ttl(20, v4().udp(9).pad_to(1_415)),
                with_byte_v6(v6().udp(9).pad_to(1_414), 7, 21),
            ],
        },
        Rule {
            class: "dscp = [46]\nprotocol = [\"icmp\", \"gre\"]",
            nft: "ip dscp ef meta l4proto { icmp, gre }",
            matched: vec![
                service(0xb8, v4().icmp(8)),
                service(0xbb, v4().icmp(8)),
                with_byte_v6(v6().icmpv6(128), 0, 0x6b),
            ],
            others: vec![service(0xbc, v4().icmp(8)), service(0xb8, v4().udp(9))],
        },
        Rule {
            class: "icmp_type = [5, \"13-14\"]\nprotocol = 1",
            nft: "icmp type { redirect, timestamp-request, timestamp-reply }",
            matched: vec![v4().icmp(5).build(), v4().icmp(14).build()],
            others: vec![
                v4().icmp(8).build(),
                v4().icmp(15).build(),
                v6().icmpv6(13).build(),
            ],
        },
        Rule {
            class: "icmp_type = [3]\nicmp_code = [\"1-3\", 13]",
            nft: "icmp type destination-unreachable icmp code { 1-3, 13 }",
            matched: vec![v4().protocol(1, &[3, 2, 0, 0]).build()],
            others: vec![
                v4().protocol(1, &[3, 4, 0, 0]).build(),
                v4().protocol(1, &[11, 1, 0, 0]).build(),
                v4().protocol(1, &[3]).build(),
            ],
        },
    ]
}

/// Rules of fragments, VLANs and ports.
fn rules_of_packets() -> Vec<Rule> {
    let v4 = || Frame::ethernet().ipv4(SOURCE);
    let v6 = || Frame::ethernet().ipv6(SOURCE_V6);
    vec![
        Rule {
            class: "fragment = \"later\"\nprotocol = \"udp\"",
            nft: "ip frag-off & 0x1fff != 0 meta l4proto udp",
            matched: vec![
                fragment(true, 8).protocol(17, &[1; 64]).build(),
                fragment(false, 8).protocol(17, &[1; 64]).build(),
            ],
            others: vec![
                fragment(true, 0).protocol(17, &[1; 64]).build(),
                fragment(false, 8).protocol(47, &[0; 64]).build(),
                v4().udp(9).build(),
            ],
        },
        Rule {
            class: "fragment = \"tiny\"\nprotocol = \"tcp\"",
            nft: "ip frag-off & 0x3fff == 0x2000 meta l4proto tcp ip length < 34",
            matched: vec![fragment(true, 0).protocol(6, &[1; 8]).build()],
            others: vec![
                fragment(true, 0).udp(9).build(),
                fragment(true, 0).protocol(6, &[1; 16]).build(),
            ],
        },
        Rule {
            class: "vlan = [7, \"100-199\"]\nprotocol = \"udp\"",
            nft: "vlan id { 7, 100-199 } meta l4proto udp",
            matched: vec![tagged(7).udp(9).build(), tagged(150).udp(9).build()],
            others: vec![
                tagged(8).udp(9).build(),
                v4().udp(9).build(),
                tagged(7).tcp(80, ACK).build(),
            ],
        },
        Rule {
            class: "protocol = \"udp\"\ndestination = [\"203.0.113.64/27\", \"2001:db8:6::/47\"]",
            nft: "meta l4proto udp ip daddr 203.0.113.64/27",
            matched: vec![
                to(v4().udp(9), "203.0.113.64"),
                to(v4().udp(9), "203.0.113.95"),
                to(v6().udp(9), "2001:db8:6::1"),
                to(v6().udp(9), "2001:db8:7:ffff::"),
            ],
            others: vec![
                to(v4().udp(9), "203.0.113.63"),
                to(v4().udp(9), "203.0.113.96"),
                to(v4().udp(9), "203.0.112.64"),
                to(v4().udp(9), "203.1.113.64"),
                to(v4().tcp(9, ACK), "203.0.113.64"),
                to(v6().udp(9), "2001:db8:8::1"),
                to(v6().udp(9), "2001:db9:6::1"),
                to(v6().udp(9), "::ffff:203.0.113.64"),
            ],
        },
        Rule {
            class: "destination = \"198.51.100.77\"\nttl = [\"0-20\"]",
            nft: "ip daddr 198.51.100.77 ip ttl 0-20",
            matched: vec![to_frame(with_byte(v4().udp(9), 8, 20), "198.51.100.77")],
            others: vec![
                to_frame(with_byte(v4().udp(9), 8, 21), "198.51.100.77"),
                to_frame(with_byte(v4().udp(9), 8, 20), "198.51.100.76"),
                to_frame(with_byte(v4().udp(9), 8, 20), "198.51.101.77"),
            ],
        },
        Rule {
            class: "source_ports = [0]",
            nft: "th sport 0",
            matched: vec![v4().protocol(17, &[0, 0, 0, 9, 0, 8, 0, 0]).build()],
            others: vec![v4().protocol(17, &[0, 1, 0, 9, 0, 8, 0, 0]).build()],
        },
        Rule {
            class: "protocol = \"udp\"\ndestination_ports = [27015]",
            nft: "udp dport 27015",
            matched: vec![v4().udp(27_015).build(), v6().udp(27_015).build()],
            others: vec![v4().tcp(27_015, ACK).build(), v6().udp(27_016).build()],
        },
    ]
}

fn to(frame: Frame, destination: &str) -> Vec<u8> {
    to_frame(frame.build(), destination)
}

/// Returns the frame with another destination.
fn to_frame(mut frame: Vec<u8>, destination: &str) -> Vec<u8> {
    let (start, octets) = match (destination.parse().unwrap(), frame[ETHERNET_BYTES] >> 4) {
        (IpAddr::V4(to), 4) => (ETHERNET_BYTES + 16, to.octets().to_vec()),
        (IpAddr::V6(to), 6) => (ETHERNET_BYTES + 24, to.octets().to_vec()),
        other => panic!("{other:?}"),
    };
    frame[start..start + octets.len()].copy_from_slice(&octets);
    frame
}

#[test]
fn a_class_drops_what_the_rule_of_nftables_matches_and_nothing_else() {
    check_rules(&rules());
}

#[test]
fn wide_classes_are_as_exact() {
    check_rules(&wide_rules());
}

/// The classes drop, exempt and are observed, in the packet path.
fn check_rules(rules: &[Rule]) {
    require_root!();
    let lab = Lab::new().unwrap();
    let config = |action: &str, limits: &str| {
        let class =
            |(index, rule): (usize, &Rule)| format!("[class.c{index}]\n{}\n{action}\n", rule.class);
        let classes: String = rules.iter().enumerate().map(class).collect();
        format!("[policy.default]\nlimits = [{limits}]\n{classes}")
    };
    let service = Service::started(&lab, &config("action = \"drop\"", "")).unwrap();
    let program = Attached::of(&service).unwrap();
    let dropped = |frame: &[u8]| program.passed(frame, 1).unwrap() == 0;
    for rule in rules {
        assert!(rule.matched.iter().all(|it| dropped(it)), "{}", rule.nft);
        assert!(!rule.others.iter().any(|it| dropped(it)), "{}", rule.nft);
    }
    let packets: usize = rules.iter().map(|rule| rule.matched.len()).sum();
    let stats = service.rlctl_ok(&["stats"]).unwrap();
    let lines = stats.lines().filter(|line| line.contains(" class "));
    let counted = lines.filter_map(|line| line.split_whitespace().nth(4)?.parse::<usize>().ok());
    assert_eq!(counted.sum::<usize>(), packets, "{stats}");

    // Exempt packets pass where no others do.
    let nothing = "{ bytes = 1, per = \"1h\" }";
    let said = service
        .reload(&config("action = \"exempt\"", nothing))
        .unwrap();
    for index in 0..rules.len() {
        let line = said
            .lines()
            .find(|line| line.contains(&format!("class c{index}: ")));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        assert!(
            line.contains(", dropped -> ") && line.contains(", exempt from limits"),
            "{line}"
        );
    }
    for rule in rules {
        assert!(!rule.matched.iter().any(|it| dropped(it)), "{}", rule.nft);
        assert!(rule.others.iter().all(|it| dropped(it)), "{}", rule.nft);
    }

    // And of a dry run nothing is dropped.
    let observed = format!("observe = true\n{}", config("action = \"drop\"", nothing));
    service.reload(&observed).unwrap();
    for rule in rules {
        let mut all = rule.matched.iter().chain(&rule.others);
        assert!(!all.any(|it| dropped(it)), "{}", rule.nft);
    }
}

#[test]
fn an_allowed_source_is_above_classes_and_check_says_what_they_do() {
    require_root!();
    let lab = Lab::new().unwrap();
    let config = "[policy.default]\n\
                  limits = []\n\
                  [class.tcp-invalid]\n\
                  action = \"drop\"\n\
                  [class.low]\n\
                  ttl = [1]\n\
                  action = \"drop\"\n";
    let service = Service::started(&lab, config).unwrap();
    let program = Attached::of(&service).unwrap();
    let source = SOURCE.to_string();
    let invalid = Frame::ethernet().ipv4(SOURCE).tcp(80, SYN | FIN).build();
    assert_eq!(program.passed(&invalid, 1).unwrap(), 0);
    let asked = ["--json", "check", &source, "--dport", "80", "--flags"];
    let check = |flags| -> Check {
        let said = service.rlctl(&[&asked[..], &[flags]].concat()).unwrap();
        serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
    };
    assert_eq!(check("syn,fin").reason, "class");
    assert_eq!(check("syn").action, "pass");
    let said = service.rlctl(&["check", &source]).unwrap().stdout;
    for line in ["tcp-invalid: dropped (class", "low: dropped (class"] {
        assert!(said.contains(line), "{said}");
    }
    let said = service.rlctl_ok(&["status"]).unwrap();
    let classes = "tcp-invalid (tcp with invalid flags, dropped)";
    assert!(said.contains(classes), "{said}");
    service.rlctl_ok(&["allow", "add", &source]).unwrap();
    assert_eq!(program.passed(&invalid, 1).unwrap(), 1);
}

#[test]
fn check_and_a_reload_know_where_the_packets_of_a_class_go_to() {
    require_root!();
    let toml = |destinations: &str| {
        format!(
            "[policy.default]\nlimits = []\n[class.victims]\nprotocol = \"udp\"\n\
             destination = [{destinations}]\naction = \"drop\"\n"
        )
    };
    let lab = Lab::new().unwrap();
    // One class, and two that follow.
    let (near, apart) = (
        "\"198.51.100.7\", \"198.51.100.9\"",
        "\"198.51.100.9\", \"203.0.114.0/24\"",
    );
    let service = Service::started(&lab, &toml(near)).unwrap();
    let program = Attached::of(&service).unwrap();
    let source = SOURCE.to_string();
    for (config, dropped, passed) in [
        (
            near,
            ["198.51.100.7", "198.51.100.9"],
            ["198.51.100.8", "203.0.114.9"],
        ),
        (
            apart,
            ["198.51.100.9", "203.0.114.9"],
            ["198.51.100.7", "203.0.100.9"],
        ),
        (
            near,
            ["198.51.100.7", "198.51.100.9"],
            ["198.51.100.8", "203.0.114.9"],
        ),
    ] {
        service.reload(&toml(config)).unwrap();
        let cases = dropped.map(|to| (to, "drop")).into_iter();
        for (destination, action) in cases.chain(passed.map(|to| (to, "pass"))) {
            let frame = Frame::ethernet().ipv4(SOURCE).udp(9);
            let passes = program.passed(&to(frame, destination), 1).unwrap() == 1;
            assert_eq!(passes, action == "pass", "{config}: {destination}");
            let way = ["--json", "check", &source, "--to", destination];
            let asked = [&way[..], &["--proto", "udp", "--dport", "9"]].concat();
            let said = service.rlctl(&asked).unwrap();
            let check: Check =
                serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
            assert_eq!(check.action, action, "{config}: {destination}");
        }
        // If no destination is named, the packet is in no class of one.
        let asked = ["--json", "check", &source, "--proto", "udp", "--dport", "9"];
        let said = service.rlctl(&asked).unwrap();
        let check: Check =
            serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        assert_eq!(check.action, "pass", "{config}");
    }
}

fn fragment(more_fragments: bool, fragment_offset: u16) -> Frame {
    let options = Ipv4Options {
        more_fragments,
        fragment_offset,
        ..Ipv4Options::default()
    };
    Frame::ethernet().ipv4_with(SOURCE, &options)
}

fn tagged(vlan: u16) -> Frame {
    // Priority bits are no part of the VLAN.
    Frame::ethernet().vlan(0x8100, vlan | 0xa000).ipv4(SOURCE)
}

/// The frame with another byte in its IPv4 header.
fn with_byte(frame: Frame, place: usize, byte: u8) -> Vec<u8> {
    let mut frame = frame.build();
    frame[ETHERNET_BYTES + place] = byte;
    frame
}

/// Sets a byte of an IPv6 header. The traffic class spans two bytes, the first of which is set.
fn with_byte_v6(frame: Frame, place: usize, byte: u8) -> Vec<u8> {
    let mut frame = with_byte(frame, place, byte);
    if place == 0 {
        frame[ETHERNET_BYTES + 1] = 0x80;
    }
    frame
}
