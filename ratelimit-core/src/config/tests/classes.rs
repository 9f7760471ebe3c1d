use super::*;
use crate::class::{Action, Match, Selected};

#[test]
fn a_limit_names_a_class_or_says_what_it_is() {
    let config = load_text(
        r#"
        [[interface]]
        name = "eth0"
        [class.dns-answers]
        protocol = "udp"
        source_ports = [53, "100-200", "8000-8100"]
        fragment = false
        [class.odd]
        protocol = ["tcp", "icmp", 47, "50"]
        [policy.default]
        limits = [
          { packets = 1, per = "1s", match = "tcp-syn" },
          { packets = 2, per = "1s", match = "dns-answers" },
          { packets = 3, per = "1s", match = { protocol = "udp", destination_ports = [53] } },
          { packets = 4, per = "1s", match = { tcp = "invalid" } },
          { packets = 5, per = "1s", match = "other" },
          { packets = 6, per = "1s" },
        ]
        "#,
    );
    let limits = config.default_policy.limits;
    let said: Vec<String> = limits.iter().map(ToString::to_string).collect();
    let expected = [
        "1 packet per 1s of tcp-syn",
        "2 packets per 1s of dns-answers",
        "3 packets per 1s of udp to port 53",
        "4 packets per 1s of tcp with invalid flags",
        "5 packets per 1s of other",
        "6 packets per 1s",
    ];
    assert_eq!(said, expected);
    let class = |name: &str| config.classes.get(name).unwrap().to_string();
    let answers = "unfragmented udp from port 53,100-200,8000-8100";
    assert_eq!(class("dns-answers"), answers);
    assert_eq!(class("odd"), "icmp/tcp/gre/esp");
    let selected = config.classes.select(limits[1].class().unwrap());
    let Ok(Selected::Class(selected)) = selected else {
        panic!("it is a class");
    };
    assert_eq!(selected.to_string(), answers);
}

#[test]
fn a_class_may_stand_in_another_file_than_its_limit() {
    let (answer, _directory) = inspect_files(&[
        ("config.toml", MINIMAL),
        (
            "conf.d/10-limits.toml",
            "[policy.a]\n\
             sources = [\"10.0.0.0/8\"]\n\
             limits = [{ packets = 1, per = \"1s\", match = \"web\" }]\n",
        ),
        (
            "conf.d/20-classes.toml",
            "[class.web]\ndestination_ports = [80]\n",
        ),
    ]);
    let (config, warnings) = answer.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let class = config.policies["a"].limits[0].class().unwrap().clone();
    assert_eq!(class, Match::Named("web".to_owned()));
}

#[test]
fn a_class_may_ask_for_every_header() {
    let config = load_text(
        r#"
        [[interface]]
        name = "eth0"
        [class.flood]
        protocol = "udp"
        length = ["1400-65535"]
        ttl = ["0-20"]
        dscp = 46
        vlan = [7, "100-199"]
        fragment = "first"
        [class.pings]
        icmp_type = [8]
        icmp_code = 0
        [class.christmas]
        tcp = "fin,psh,urg / fin,syn,rst,psh,ack,urg"
        action = "drop"
        [class.tcp-rst]
        action = "exempt"
        [policy.default]
        limits = [{ packets = 1, per = "1s", match = "later-fragments" }]
        "#,
    );
    let class = |name: &str| config.classes.get(name).unwrap().to_string();
    assert_eq!(
        class("flood"),
        "first fragments of udp of length 1400-65535 with TTL 0-20 with DSCP 46 in VLAN 7,100-199"
    );
    assert_eq!(class("pings"), "icmp of type 8 with code 0");
    let actions: Vec<_> = config
        .classes
        .actions()
        .map(|(name, class, action)| (name, class.to_string(), action))
        .collect();
    let christmas = "tcp with flags fin,psh,urg / fin,syn,rst,psh,ack,urg";
    let expected = [
        ("christmas", christmas.to_owned(), Action::Drop),
        ("tcp-rst", "tcp with flags rst".to_owned(), Action::Exempt),
    ];
    assert_eq!(actions, expected);
}

#[test]
fn lengths_that_no_packet_has_are_refused() {
    check_behind_minimal(
        r#"[class.a]
length = ["0-19"]
[class.b]
protocol = "udp"
fragment = false
length = ["20-27"]
[class.c]
destination_ports = [53]
length = [27]
[class.d]
source = "marsian"
"#,
        r#"config.toml:8:1: such packets have at least 20 bytes: none would belong to the class
8 | [class.a]
  | ^^^^^^^^^ write a length of 20 or more, which counts the IP header, or remove it
config.toml:10:1: such packets have at least 28 bytes: none would belong to the class
10 | [class.b]
   | ^^^^^^^^^ write a length of 28 or more, which counts the IP header, or remove it
config.toml:14:1: such packets have at least 28 bytes: none would belong to the class
14 | [class.c]
   | ^^^^^^^^^ write a length of 28 or more, which counts the IP header, or remove it
config.toml:18:10: unknown source `marsian`
18 | source = "marsian"
   |          ^^^^^^^^^ write "land" or "bogon""#,
    );
    // The last part of a packet may be short.
    load_text(
        r#"
        [[interface]]
        name = "eth0"
        [policy.default]
        limits = []
        [class.a]
        protocol = "udp"
        length = ["20-27"]
        action = "drop"
        [class.b]
        fragment = "later"
        length = 21
        action = "drop"
        [class.c]
        tcp = "rst"
        fragment = false
        length = 40
        action = "drop"
        "#,
    );
}

#[test]
fn a_class_may_ask_where_packets_go_to() {
    let config = load_text(
        r#"
        [[interface]]
        name = "eth0"
        [class.dns]
        protocol = "udp"
        destination = ["198.51.100.53", "2001:db8::/48"]
        action = "drop"
        [policy.default]
        limits = [{ packets = 1, per = "1s", match = { destination = "203.0.113.0/24" } }]
        "#,
    );
    let class = config.classes.get("dns").unwrap().to_string();
    assert_eq!(class, "udp to 198.51.100.53,2001:db8::/48");
    let limit = config.default_policy.limits[0].to_string();
    assert_eq!(limit, "1 packet per 1s of packets to 203.0.113.0/24");
}

#[test]
fn destinations_that_differ_at_several_octets_count_as_several_classes() {
    let prefixes = |step: usize| {
        let hosts = (0..32).map(|host| format!("\"10.0.{}.{host}\"", host * step));
        hosts.collect::<Vec<String>>().join(", ")
    };
    let class = |step| {
        format!(
            "[class.a]\ndestination = [{}]\naction = \"drop\"\n",
            prefixes(step)
        )
    };
    load_text(&format!("{MINIMAL}{}", class(0)));
    check_behind_minimal(
        &class(1),
        r"config.toml:8:1: with this one 32 classes are used
8 | [class.a]
  | ^^^^^^^^^ keep 31, the most that can be distinguished: its destinations count as 32",
    );
}
