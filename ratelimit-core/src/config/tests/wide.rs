use super::*;
use crate::{ip_family::IpFamily, limit::LimitSpec};

#[test]
fn wider_prefixes_and_the_node_have_limits() {
    let config = load_text(
        r#"
        [[interface]]
        name = "eth0"
        [policy.default]
        limits = [{ packets = 1000, per = "1s" }]
        [subnet]
        observe = true
        ipv4 = [{ prefix = 24, packets = 10_000, per = "1s" }]
        ipv6 = [
          { prefix = 48, packets = 50_000, per = "1s", match = "tcp-syn" },
          { prefix = 56, packets = 10_000, per = "1s" },
          { prefix = 48, bytes = "100MB", per = "1s" },
        ]
        [node]
        limits = [
          { packets = 2_000_000, per = "1s" },
          { packets = 50_000, per = "1s", match = "tcp-syn" },
        ]
        "#,
    );
    let said = |family| -> Vec<(u8, String)> {
        let levels = config.aggregate.levels(family).iter();
        let said = |limits: &[LimitSpec]| {
            limits
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" and ")
        };
        levels
            .map(|level| (level.prefix, said(&level.limits)))
            .collect()
    };
    assert_eq!(
        said(IpFamily::V4),
        [(24, "10000 packets per 1s".to_owned())]
    );
    let ipv6 = [
        (56, "10000 packets per 1s".to_owned()),
        (
            48,
            "50000 packets per 1s of tcp-syn and 100MB per 1s (token-bucket, burst 100MB)"
                .to_owned(),
        ),
    ];
    assert_eq!(said(IpFamily::V6), ipv6);
    assert!(config.aggregate.observe && !config.node.observe);
    assert_eq!(config.node.limits.len(), 2);
}

#[test]
fn an_aggregate_that_says_nothing_is_refused() {
    check_behind_minimal(
        "[subnet]\n",
        r#"config.toml:8:1: [subnet] has neither `ipv4` nor `ipv6`
8 | [subnet]
  | ^^^^^^^^ write ipv4 = [{ prefix = 24, packets = 10_000, per = "1s" }], or the same for `ipv6`"#,
    );
    check_behind_minimal(
        "[subnet]\nipv4 = 24\nipv6 = []\n",
        r#"config.toml:9:8: `ipv4` is an integer, not a list
9 | ipv4 = 24
  |        ^^ write ipv4 = [{ prefix = 24, packets = 10_000, per = "1s" }]
config.toml:10:8: the `ipv6` of [subnet] is empty
10 | ipv6 = []
   |        ^^ write ipv6 = [{ prefix = 56, packets = 10_000, per = "1s" }], or remove it"#,
    );
    check_behind_minimal(
        "[node]\n",
        r#"config.toml:8:1: [node] has no `limits`
8 | [node]
  | ^^^^^^ write limits = [{ packets = 2_000_000, per = "1s" }], or remove [node]"#,
    );
    check_behind_minimal(
        "[node]\nlimits = []\n",
        r#"config.toml:9:10: `limits` of [node] is empty
9 | limits = []
  |          ^^ write limits = [{ packets = 2_000_000, per = "1s" }], or remove [node]"#,
    );
}

#[test]
fn a_prefix_that_is_missing_or_not_wider_than_a_source_is_refused() {
    check_behind_minimal(
        r#"[source]
ipv6_prefix = 56
[subnet]
ipv4 = [{ packets = 1, per = "1s" }, { prefix = 32, packets = 1, per = "1s" }, { prefix = 0, packets = 1, per = "1s" }]
ipv6 = [{ prefix = 56, packets = 1, per = "1s" }, { prefix = 129, packets = 1, per = "1s" }]
"#,
        r#"config.toml:11:9: a limit of [subnet] has no `prefix`
11 | ipv4 = [{ packets = 1, per = "1s" }, { prefix = 32, packets = 1, per = "1s" }, { prefix = 0, packets = 1, per …
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^ write for example prefix = 24
config.toml:11:49: a /32 is not wider than a source, which is a /32
11 | ipv4 = [{ packets = 1, per = "1s" }, { prefix = 32, packets = 1, per = "1s" }, { prefix = 0, packets = 1, per …
   |                                                 ^^ write a prefix below 32, or a longer `ipv4_prefix` in [source]
config.toml:11:91: `prefix` is out of range
11 | …1s" }, { prefix = 32, packets = 1, per = "1s" }, { prefix = 0, packets = 1, per = "1s" }]
   |                                                              ^ write a number from 1 to 32
config.toml:12:20: a /56 is not wider than a source, which is a /56
12 | ipv6 = [{ prefix = 56, packets = 1, per = "1s" }, { prefix = 129, packets = 1, per = "1s" }]
   |                    ^^ write a prefix below 56, or a longer `ipv6_prefix` in [source]
config.toml:12:62: `prefix` is out of range
12 | ipv6 = [{ prefix = 56, packets = 1, per = "1s" }, { prefix = 129, packets = 1, per = "1s" }]
   |                                                              ^^^ write a number from 1 to 128"#,
    );
}

#[test]
fn a_third_prefix_and_a_ninth_limit_are_refused() {
    check_behind_minimal(
        r#"[subnet]
ipv6 = [
  { prefix = 56, packets = 1, per = "1s" },
  { prefix = 48, packets = 1, per = "1s" },
  { prefix = 56, packets = 1, per = "1m" },
  { prefix = 32, packets = 1, per = "1s" },
]
ipv4 = [
  { prefix = 24, packets = 1, per = "1s" },
  { prefix = 24, packets = 1, per = "2s" },
  { prefix = 24, packets = 1, per = "3s" },
  { prefix = 24, packets = 1, per = "4s" },
  { prefix = 24, packets = 1, per = "5s" },
  { prefix = 24, packets = 1, per = "6s" },
  { prefix = 24, packets = 1, per = "7s" },
  { prefix = 24, packets = 1, per = "8s" },
  { prefix = 24, packets = 1, per = "9s" },
]
[node]
limits = [
  { packets = 1, per = "1s" },
  { packets = 1, per = "2s" },
  { packets = 1, per = "3s" },
  { packets = 1, per = "4s" },
  { packets = 1, per = "5s" },
  { packets = 1, per = "6s" },
  { packets = 1, per = "7s" },
  { packets = 1, per = "8s" },
  { packets = 1, per = "9s" },
]
"#,
        r#"config.toml:13:14: `ipv6` of [subnet] has more than 2 prefixes
13 |   { prefix = 32, packets = 1, per = "1s" },
   |              ^^ keep 2 lengths; several limits may have the same
config.toml:24:3: the /24 of [subnet] has more than 8 limits
24 |   { prefix = 24, packets = 1, per = "9s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ keep 8, the most that a prefix can have
config.toml:36:3: [node] has 9 limits
36 |   { packets = 1, per = "9s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^ keep 8, the most that a policy can have"#,
    );
}

#[test]
fn an_unknown_key_and_an_unknown_class_are_refused_here_too() {
    check_behind_minimal(
        r#"[subnet]
ipv4 = [{ prefix = 24, packets = 1, per = "1s", match = "tpc" }]
ipv5 = []
[node]
limit = []
limits = [{ prefix = 24, packets = 1, per = "1s", match = "x" }]
"#,
        r#"config.toml:9:57: there is no class `tpc`
9 | ipv4 = [{ prefix = 24, packets = 1, per = "1s", match = "tpc" }]
  |                                                         ^^^^^ write "tcp" or "udp" or "icmp" or "tcp-syn" or "tcp-syn-ack" or "tcp-rst" or "tcp-invalid" or "fragments" or "later-fragments" or "reflection" or "reflection-dns" or "reflection-ntp" or "reflection-memcached" or "reflection-ssdp" or "reflection-cldap" or "reflection-chargen" or "reflection-snmp" or "reflection-portmap" or "reflection-ws-discovery" or "reflection-ard" or "land" or "bogons" or "source-port-0" or "tcp-christmas" or "other"
config.toml:10:1: unknown key `ipv5` in [subnet]
10 | ipv5 = []
   | ^^^^ did you mean `ipv6`?
config.toml:12:1: unknown key `limit` in [node]
12 | limit = []
   | ^^^^^ did you mean `limits`?
config.toml:13:13: unknown key `prefix` in a limit
13 | limits = [{ prefix = 24, packets = 1, per = "1s", match = "x" }]
   |             ^^^^^^ remove it; known here: packets, bytes, per, algorithm, burst, match, scope, division
config.toml:13:59: there is no class `x`
13 | limits = [{ prefix = 24, packets = 1, per = "1s", match = "x" }]
   |                                                           ^^^ write "tcp" or "udp" or "icmp" or "tcp-syn" or "tcp-syn-ack" or "tcp-rst" or "tcp-invalid" or "fragments" or "later-fragments" or "reflection" or "reflection-dns" or "reflection-ntp" or "reflection-memcached" or "reflection-ssdp" or "reflection-cldap" or "reflection-chargen" or "reflection-snmp" or "reflection-portmap" or "reflection-ws-discovery" or "reflection-ard" or "land" or "bogons" or "source-port-0" or "tcp-christmas" or "other""#,
    );
}

#[test]
fn the_node_has_no_sliding_log() {
    check_behind_minimal(
        r#"[subnet]
ipv4 = [{ prefix = 24, packets = 9, per = "1s", algorithm = "sliding-log" }]
[node]
limits = [{ packets = 9, per = "1s", algorithm = "sliding-log" }]
"#,
        r#"config.toml:11:11: [node] cannot have a limit by sliding-log: one log would be written by every CPU for every packet
11 | limits = [{ packets = 9, per = "1s", algorithm = "sliding-log" }]
   |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write algorithm = "sliding-window" or "token-bucket""#,
    );
}

#[test]
fn the_node_prefers_verified_sources_where_sources_can_be_verified() {
    let preferring = "[node]\nlimits = [{ packets = 9, per = \"1s\" }]\nprefer = \"verified\"\n";
    for when in ["always", "over 5 syn/s", "never"] {
        let challenge = format!("[challenge.tcp]\nwhen = \"{when}\"\nmethod = \"syncookie\"\n");
        let toml = format!("{MINIMAL}{preferring}{challenge}");
        assert!(load_text(&toml).node.prefers_verified);
        let without = toml.replace("prefer = \"verified\"", "");
        assert!(!load_text(&without).node.prefers_verified);
    }
    // By RST a forger verifies whom it wants.
    let by_reset = format!("{preferring}[challenge.tcp]\nwhen = \"always\"\n");
    assert!(
        !load_text(&format!("{MINIMAL}{by_reset}"))
            .node
            .prefers_verified
    );
    check_warnings_behind_minimal(
        &by_reset,
        r#"config.toml:10:10: `prefer` has no effect with method = "rst" because a forged SYN of a live host verifies that host
10 | prefer = "verified"
   |          ^^^^^^^^^^ write method = "syncookie" in [challenge.tcp], or remove `prefer`"#,
    );
    check_behind_minimal(
        preferring,
        r#"config.toml:10:10: `prefer` of [node] is "verified", but without a challenge no source is verified
10 | prefer = "verified"
   |          ^^^^^^^^^^ write [challenge.tcp], and under it when = "always", or remove `prefer`"#,
    );
    check_behind_minimal(
        "[node]\nlimits = [{ packets = 9, per = \"1s\" }]\nprefer = \"verfied\"\n",
        r#"config.toml:10:10: unknown prefer `verfied`
10 | prefer = "verfied"
   |          ^^^^^^^^^ did you mean "verified"?"#,
    );
    check_behind_minimal(
        "[node]\nlimits = [{ packets = 9, per = \"1s\" }]\nprefer = 1\n",
        r#"config.toml:10:10: `prefer` is an integer, not a string
10 | prefer = 1
   |          ^ write prefer = "verified""#,
    );
}

#[test]
fn aggregate_and_node_are_set_once() {
    check_files(
        &[
            ("config.toml", MINIMAL),
            (
                "conf.d/a.toml",
                "[subnet]\n\
                 ipv4 = [{ prefix = 24, packets = 1, per = \"1s\" }]\n\
                 [node]\n\
                 limits = [{ packets = 1, per = \"1s\" }]\n",
            ),
            (
                "conf.d/b.toml",
                "[subnet]\n\
                 ipv4 = [{ prefix = 16, packets = 1, per = \"1s\" }]\n\
                 [node]\n\
                 limits = [{ packets = 1, per = \"1s\" }]\n",
            ),
        ],
        r"conf.d/b.toml:1:1: [subnet] is set twice, first at conf.d/a.toml:1:1
1 | [subnet]
  | ^^^^^^^^ keep one of them
conf.d/b.toml:3:1: [node] is set twice, first at conf.d/a.toml:3:1
3 | [node]
  | ^^^^^^ keep one of them",
    );
}

#[test]
fn limits_of_many_that_one_source_uses_up_are_warned_of() {
    check_warnings(
        r#"[[interface]]
name = "eth0"
[policy.default]
limits = [
  { packets = 1000, per = "1s" },
  { packets = 20, per = "1s", match = "tcp-syn" },
]
[subnet]
ipv4 = [
  { prefix = 24, packets = 1000, per = "1s" },
  { prefix = 16, packets = 1001, per = "1s" },
  { prefix = 16, packets = 30, per = "1s", match = "tcp-syn" },
]
[node]
limits = [
  { packets = 100_000, per = "1s" },
  { packets = 20, per = "1s", match = "tcp" },
]
"#,
        r#"config.toml:10:3: 1000 packets per 1s for all of `ipv4` /24 of [subnet] are no more than one source may send by [policy.default]: its 1000 packets per 1s are never reached
10 |   { prefix = 24, packets = 1000, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write what many sources may send together
config.toml:17:3: 20 packets per 1s of tcp for all of [node] are no more than one source may send by [policy.default]: its 20 packets per 1s of tcp-syn are never reached
17 |   { packets = 20, per = "1s", match = "tcp" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write what many sources may send together"#,
    );
}
