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
