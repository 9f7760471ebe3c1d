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
fn a_class_that_is_not_there_is_refused_with_one_that_is_close() {
    check_behind_minimal(
        r#"[class.dns-answers]
source_ports = [53]
[policy.a]
sources = ["10.0.0.0/8"]
limits = [
  { packets = 1, per = "1s", match = "tcp-sny" },
  { packets = 1, per = "1s", match = "dns-answer" },
  { packets = 1, per = "1s", match = "games" },
  { packets = 1, per = "1s", match = 53 },
]
"#,
        r#"config.toml:13:38: there is no class `tcp-sny`
13 |   { packets = 1, per = "1s", match = "tcp-sny" },
   |                                      ^^^^^^^^^ did you mean "tcp-syn"?
config.toml:14:38: there is no class `dns-answer`
14 |   { packets = 1, per = "1s", match = "dns-answer" },
   |                                      ^^^^^^^^^^^^ did you mean "dns-answers"?
config.toml:15:38: there is no class `games`
15 |   { packets = 1, per = "1s", match = "games" },
   |                                      ^^^^^^^ write "tcp" or "udp" or "icmp" or "tcp-syn" or "tcp-syn-ack" or "tcp-rst" or "tcp-invalid" or "fragments" or "later-fragments" or "reflection" or "reflection-dns" or "reflection-ntp" or "reflection-memcached" or "reflection-ssdp" or "reflection-cldap" or "reflection-chargen" or "reflection-snmp" or "reflection-portmap" or "reflection-ws-discovery" or "reflection-ard" or "land" or "bogons" or "source-port-0" or "tcp-christmas" or "other" or "dns-answers"
config.toml:16:38: `match` is an integer, not a string
16 |   { packets = 1, per = "1s", match = 53 },
   |                                      ^^ write match = "tcp-syn", or match = { protocol = "udp", source_ports = [53] }"#,
    );
}

#[test]
fn what_no_protocol_has_at_once_is_refused() {
    check_behind_minimal(
        "[class.a]\n\
         icmp_type = [8]\n\
         source_ports = [53]\n\
         [class.b]\n\
         icmp_type = [8]\n\
         tcp = \"syn\"\n",
        r#"config.toml:8:1: icmp has no ports: none would belong to the class
8 | [class.a]
  | ^^^^^^^^^ remove that protocol or the ports; tcp, udp, sctp, dccp and udplite have ports
config.toml:11:1: icmp has no TCP flags: none would belong to the class
11 | [class.b]
   | ^^^^^^^^^ remove `protocol`, or write protocol = "tcp""#,
    );
}

#[test]
fn a_class_without_packets_is_refused() {
    check_behind_minimal(
        r#"[class.a]
[class.b]
protocol = []
[class.c]
protocol = ["udp", "icmp"]
source_ports = [53]
[class.d]
protocol = "udp"
tcp = "syn"
[class.e]
destination_ports = []
[policy.a]
sources = ["10.0.0.0/8"]
limits = [{ packets = 1, per = "1s", match = {} }]
"#,
        r#"config.toml:8:1: the class has no conditions: every packet would match
8 | [class.a]
  | ^^^^^^^^^ add a condition such as `protocol` or `destination_ports`; a limit without `match` counts all packets
config.toml:9:1: the list of `protocol` is empty: no packet would belong to the class
9 | [class.b]
  | ^^^^^^^^^ list what belongs to the class, or remove the key
config.toml:11:1: icmp has no ports: none would belong to the class
11 | [class.c]
   | ^^^^^^^^^ remove that protocol or the ports; tcp, udp, sctp, dccp and udplite have ports
config.toml:14:1: udp has no TCP flags: none would belong to the class
14 | [class.d]
   | ^^^^^^^^^ remove `protocol`, or write protocol = "tcp"
config.toml:17:1: the list of `destination_ports` is empty: no packet would belong to the class
17 | [class.e]
   | ^^^^^^^^^ list what belongs to the class, or remove the key
config.toml:21:46: the class has no conditions: every packet would match
21 | limits = [{ packets = 1, per = "1s", match = {} }]
   |                                              ^^ add a condition such as `protocol` or `destination_ports`; a limit without `match` counts all packets"#,
    );
}

#[test]
fn ports_protocols_and_flags_that_do_not_exist_are_refused() {
    check_behind_minimal(
        r#"[class.a]
source_ports = [65536, "90-80", "http", "1-2-3", -1, 1.5]
destination_ports = 80
[class.b]
protocol = ["upd", 256, "http"]
tcp = "sin"
fragment = "yes"
port = 53
"#,
        r#"config.toml:9:17: there is no port 65536: the last one is 65535
9 | source_ports = [65536, "90-80", "http", "1-2-3", -1, 1.5]
  |                 ^^^^^ write a number from 0 to 65535
config.toml:9:24: the range `90-80` ends before it begins
9 | source_ports = [65536, "90-80", "http", "1-2-3", -1, 1.5]
  |                        ^^^^^^^ write "80-90"
config.toml:9:33: `http` is not a port or a range
9 | source_ports = [65536, "90-80", "http", "1-2-3", -1, 1.5]
  |                                 ^^^^^^ write for example 53 or "8000-8100"
config.toml:9:41: `1-2-3` is not a port or a range
9 | source_ports = [65536, "90-80", "http", "1-2-3", -1, 1.5]
  |                                         ^^^^^^^ write for example 53 or "8000-8100"
config.toml:9:50: `-1` is not a port or a range
9 | source_ports = [65536, "90-80", "http", "1-2-3", -1, 1.5]
  |                                                  ^^ write for example 53 or "8000-8100"
config.toml:9:54: `source_ports` is a fraction, not a string
9 | source_ports = [65536, "90-80", "http", "1-2-3", -1, 1.5]
  |                                                      ^^^ write source_ports = [53, "8000-8100"]
config.toml:12:13: there is no protocol `upd`
12 | protocol = ["upd", 256, "http"]
   |             ^^^^^ write "tcp" or "udp" or "icmp" or "icmpv6" or "sctp" or "gre" or "esp" or "igmp" or "ipip" or "dccp" or "ipv6" or "ospf" or "pim" or "vrrp" or "udplite", or a number from 0 to 255
config.toml:12:20: there is no protocol `256`
12 | protocol = ["upd", 256, "http"]
   |                    ^^^ write "tcp" or "udp" or "icmp" or "icmpv6" or "sctp" or "gre" or "esp" or "igmp" or "ipip" or "dccp" or "ipv6" or "ospf" or "pim" or "vrrp" or "udplite", or a number from 0 to 255
config.toml:12:25: there is no protocol `http`
12 | protocol = ["upd", 256, "http"]
   |                         ^^^^^^ write "tcp" or "udp" or "icmp" or "icmpv6" or "sctp" or "gre" or "esp" or "igmp" or "ipip" or "dccp" or "ipv6" or "ospf" or "pim" or "vrrp" or "udplite", or a number from 0 to 255
config.toml:13:7: there is no TCP flag `sin`
13 | tcp = "sin"
   |       ^^^^^ write "syn" or "invalid" or "syn-ack" or "rst", or flags and those to examine: "fin,psh,urg / fin,syn,rst,psh,ack,urg"
config.toml:14:12: unknown fragment `yes`
14 | fragment = "yes"
   |            ^^^^^ write true, false, "first", "later" or "tiny"
config.toml:15:1: unknown key `port` in [class.b]
15 | port = 53
   | ^^^^ remove it; known here: action, protocol, source_ports, destination_ports, icmp_type, icmp_code, length, ttl, dscp, vlan, tcp, fragment, source, destination"#,
    );
}

#[test]
fn a_name_that_is_built_in_or_no_name_is_refused() {
    check_behind_minimal(
        r#"[class.udp]
protocol = "udp"
source_ports = [53]
[class."a b"]
protocol = "udp"
source_ports = [54]
"#,
        r#"config.toml:8:8: `udp` is a built-in class
8 | [class.udp]
  |        ^^^ give the class another name; of this one only `action` can be set
config.toml:11:8: `a b` is not a valid name for a class
11 | [class."a b"]
   |        ^^^^^ write letters, digits, `-` and `_`"#,
    );
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
fn headers_that_no_packet_has_are_refused() {
    check_behind_minimal(
        r#"[class.a]
ttl = [256]
dscp = 64
vlan = "4096"
length = ["100-"]
[class.b]
length = ["0-65535"]
[class.c]
icmp_type = 8
protocol = "tcp"
[class.d]
fragment = "later"
destination_ports = 53
[class.e]
tcp = "syn / ack"
[class.f]
tcp = "fin"
action = "pass"
[class.tcp]
[class.other]
action = "drop"
"#,
        r#"config.toml:9:8: there is no time to live 256: the last one is 255
9 | ttl = [256]
  |        ^^^ write a number from 0 to 255
config.toml:10:8: there is no DSCP 64: the last one is 63
10 | dscp = 64
   |        ^^ write a number from 0 to 63
config.toml:11:8: there is no VLAN 4096: the last one is 4095
11 | vlan = "4096"
   |        ^^^^^^ write a number from 0 to 4095
config.toml:12:11: `100-` is not a length of a packet or a range
12 | length = ["100-"]
   |           ^^^^^^ write for example ["1400-65535"]
config.toml:13:1: `length` includes every value, so it has no effect
13 | [class.b]
   | ^^^^^^^^^ remove it
config.toml:15:1: packets of tcp have no types of ICMP: none would belong to the class
15 | [class.c]
   | ^^^^^^^^^ remove `protocol`, or write protocol = "icmp" or "icmpv6"
config.toml:18:1: later fragments have no `destination_ports`: none would belong to the class
18 | [class.d]
   | ^^^^^^^^^ remove it: only the first fragment has a transport header
config.toml:22:7: `syn` is set, but not examined: no packet would belong to the class
22 | tcp = "syn / ack"
   |       ^^^^^^^^^^^ write `syn` after the slash, too
config.toml:24:7: `fin` does not name the flags to examine
24 | tcp = "fin"
   |       ^^^^^ write the flags to examine after a slash: "fin,psh,urg / fin,syn,rst,psh,ack,urg"
config.toml:25:10: unknown action `pass`
25 | action = "pass"
   |          ^^^^^^ write "drop" or "exempt"
config.toml:26:8: `tcp` is a built-in class
26 | [class.tcp]
   |        ^^^ write action = "drop" or action = "exempt", or give the class another name
config.toml:27:8: `other` depends on the limits of a policy, so it has no action
27 | [class.other]
   |        ^^^^^ name a class"#,
    );
}

#[test]
fn classes_of_the_same_packets_are_refused() {
    check_behind_minimal(
        r#"[class.a]
protocol = "tcp"
destination_ports = ["80-90", "85-100"]
[class.b]
protocol = 6
destination_ports = ["80-100"]
[class.c]
tcp = "syn"
"#,
        r#"config.toml:11:1: [class.b] has the same packets as [class.a], first at config.toml:8:1
11 | [class.b]
   | ^^^^^^^^^ keep one of them
config.toml:14:1: [class.c] has the same packets as the built-in class `tcp-syn`
14 | [class.c]
   | ^^^^^^^^^ remove it, and write match = "tcp-syn""#,
    );
    check_files(
        &[
            ("config.toml", MINIMAL),
            ("conf.d/a.toml", "[class.a]\nsource_ports = [1]\n"),
            ("conf.d/b.toml", "[class.a]\nsource_ports = [2]\n"),
        ],
        r"conf.d/b.toml:1:1: [class.a] is defined twice, first at conf.d/a.toml:1:1
1 | [class.a]
  | ^^^^^^^^^ make them one, or give one another name",
    );
}

#[test]
fn a_32nd_class_is_refused() {
    let limits = |first: u16, count: u16| {
        let limit = |port| {
            format!("{{ packets = 1, per = \"1s\", match = {{ source_ports = [{port}] }} }},")
        };
        (first..first + count)
            .map(limit)
            .collect::<Vec<_>>()
            .join("\n  ")
    };
    let policy = |name: u16, count| {
        let limits = limits(8 * name + 1, count);
        format!("[policy.p{name}]\nsources = [\"10.{name}.0.0/16\"]\nlimits = [\n  {limits}\n]\n")
    };
    let policies = |last| [policy(0, 8), policy(1, 8), policy(2, 8), policy(3, last)].concat();
    check_behind_minimal(&policies(7), "");
    check_behind_minimal(
        &policies(8),
        r#"config.toml:54:3: with this one 32 classes are used
54 |   { packets = 1, per = "1s", match = { source_ports = [32] } },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ keep 31, the most that can be distinguished"#,
    );
}

#[test]
fn a_class_that_no_limit_counts_is_warned_of() {
    check_warnings_behind_minimal(
        r"[class.web]
destination_ports = [80]
",
        r#"config.toml:8:1: no limit counts [class.web]
8 | [class.web]
  | ^^^^^^^^^^^ write match = "web" in a limit, give it an action, or remove it"#,
    );
}

#[test]
fn classes_that_share_packets_are_warned_of_where_both_are_counted() {
    check_warnings_behind_minimal(
        r#"[class.dns-answers]
protocol = "udp"
source_ports = [53]
[policy.a]
sources = ["10.0.0.0/8"]
limits = [
  { packets = 6, per = "1s", match = "dns-answers" },
  { packets = 8, per = "1s", match = { destination_ports = [80] } },
  { packets = 7, per = "1s", match = "udp" },
  { packets = 6, per = "1s", match = "other" },
]
[policy.b]
sources = ["11.0.0.0/8"]
limits = [{ packets = 9, per = "1s", match = "fragments" }]
"#,
        r#"config.toml:15:3: the classes dns-answers and packets to port 80 share packets, which both limits count: udp from port 53 to port 80 is charged to 6 packets per 1s of dns-answers and to 8 packets per 1s of packets to port 80
15 |   { packets = 8, per = "1s", match = { destination_ports = [80] } },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ narrow one of them if that is not meant
config.toml:16:3: the classes packets to port 80 and udp share packets, which both limits count: udp to port 80 is charged to 8 packets per 1s of packets to port 80 and to 7 packets per 1s of udp
16 |   { packets = 7, per = "1s", match = "udp" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ narrow one of them if that is not meant"#,
    );
}

#[test]
fn a_limit_of_a_class_is_not_idle_beside_one_of_another() {
    check_warnings_of_limits(
        r#"  { packets = 1000, per = "1s" },
  { packets = 10, per = "1s", match = "tcp" },
  { packets = 20, per = "1s", match = "udp" },
  { packets = 30, per = "1s", match = "tcp-syn" },
  { packets = 5000, per = "1s", match = "icmp" },"#,
        r#"config.toml:14:3: 30 packets per 1s of tcp-syn can never be reached because of 10 packets per 1s of tcp
14 |   { packets = 30, per = "1s", match = "tcp-syn" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them
config.toml:15:3: 5000 packets per 1s of icmp can never be reached because of 1000 packets per 1s
15 |   { packets = 5000, per = "1s", match = "icmp" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
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
fn destinations_that_no_packet_has_or_every_packet_are_refused() {
    check_behind_minimal(
        r#"[class.a]
destination = ["198.51.100.7/24", "198.51.100.0/33", "example.org", 7]
[class.b]
destination = []
[class.c]
destination = ["0.0.0.0/0", "::/0"]
[class.d]
destination = ["10.0.0.0/8", "10.1.0.0/16"]
[class.e]
destination = ["2001:db8::/32"]
length = ["20-39"]
"#,
        r#"config.toml:9:16: host bits are set in `198.51.100.7/24`
9 | destination = ["198.51.100.7/24", "198.51.100.0/33", "example.org", 7]
  |                ^^^^^^^^^^^^^^^^^ write 198.51.100.0/24 or 198.51.100.7
config.toml:9:35: `198.51.100.0/33` is longer than IPv4 addresses are
9 | destination = ["198.51.100.7/24", "198.51.100.0/33", "example.org", 7]
  |                                   ^^^^^^^^^^^^^^^^^ write a length up to /32
config.toml:9:54: `example.org` is not an IPv4 or IPv6 address or prefix
9 | destination = ["198.51.100.7/24", "198.51.100.0/33", "example.org", 7]
  |                                                      ^^^^^^^^^^^^^ write for example 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32
config.toml:9:69: `destination` is an integer, not a string
9 | destination = ["198.51.100.7/24", "198.51.100.0/33", "example.org", 7]
  |                                                                     ^ write destination = ["198.51.100.0/24"]
config.toml:10:1: the list of `destination` is empty: no packet would belong to the class
10 | [class.b]
   | ^^^^^^^^^ list what belongs to the class, or remove the key
config.toml:12:1: `destination` includes every value, so it has no effect
12 | [class.c]
   | ^^^^^^^^^ remove it
config.toml:14:1: `destination` names 10.1.0.0/16, which is a part of 10.0.0.0/8
14 | [class.d]
   | ^^^^^^^^^ remove 10.1.0.0/16, or write it in a class of its own
config.toml:16:1: such packets have at least 40 bytes: none would belong to the class
16 | [class.e]
   | ^^^^^^^^^ write a length of 40 or more, which counts the IP header, or remove it"#,
    );
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
