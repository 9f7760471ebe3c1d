//! `connections` of a policy.

use super::check;

#[test]
fn connections_without_effect_or_without_sense_are_refused() {
    check(
        r#"[[interface]]
name = "eth0"
policy = "lan"
[policy.default]
limits = []
connections = 0
[policy.lan]
limits = []
connections = 9
"#,
        r"config.toml:6:15: `connections` is out of range
6 | connections = 0
  |               ^ write a number from 1 to 1000000
config.toml:9:15: `connections` of [policy.lan] has no effect: an interface has none of its own
9 | connections = 9
  |               ^ write it in [policy.default], or in a policy with `sources`",
    );
}
