//! Settings of a single interface.

use super::{MINIMAL, check_behind_minimal, inspect_files};

const LAN: &str = "[policy.lan]\nlimits = []\n";
const ETH1: &str = "[[interface]]\nname = \"eth1\"\npolicy = \"lan\"\nobserve = true\n";

#[test]
fn an_interface_names_a_policy_which_then_needs_no_sources() {
    let (answer, _directory) = inspect_files(&[("config.toml", &format!("{MINIMAL}{LAN}{ETH1}"))]);
    let (config, warnings) = answer.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let told =
        ["eth0", "eth1"].map(|name| (config.policy_on(Some(name)), config.observes_on(Some(name))));
    assert_eq!(told, [("default", false), ("lan", true)]);
    assert!(config.is_of_interface("lan") && !config.is_of_interface("default"));
}

#[test]
fn an_interface_has_limits_in_place_of_those_of_the_node() {
    let node = "[interface.node]\nlimits = [{ packets = 9000, per = \"1s\", match = \"udp\" }]\n";
    let eth1 = ETH1.replace("policy = \"lan\"\n", "");
    let other = "[[interface]]\n\
                 name = \"eth2\"\n\
                 node = { limits = [{ bytes = \"2MB\", per = \"1s\" }], observe = true }\n";
    let text = format!("{MINIMAL}{eth1}{node}{other}");
    let (answer, _directory) = inspect_files(&[("config.toml", &text)]);
    let (config, warnings) = answer.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let told = ["eth0", "eth1", "eth2"].map(|name| {
        let node = config.node_of(name);
        (config.has_own_node(name), node.limits.len(), node.observe)
    });
    assert_eq!(told, [(false, 0, false), (true, 1, false), (true, 1, true)]);
    assert!(config.node.limits.is_empty());
}

#[test]
fn what_limits_of_an_interface_cannot_be_is_refused() {
    check_behind_minimal(
        r#"[[interface]]
name = "eth1"
[interface.node]
prefer = "verified"
limits = [
  { packets = 9, per = "1s", algorithm = "sliding-log" },
  { packets = 900, per = "1s", scope = "cluster" },
  { packets = 90, per = "1s", match = "udpp" },
]
[[interface]]
name = "eth2"
node = { limits = [] }
[[interface]]
name = "eth3"
node = { limit = [] }
[[interface]]
name = "eth4"
node = 5
"#,
        r#"config.toml:11:10: `prefer` applies to all interfaces together
11 | prefer = "verified"
   |          ^^^^^^^^^^ write it in [node], and remove it here: it applies to these limits, too
config.toml:13:3: `node` of [[interface]] cannot have a limit by sliding-log: one log would be written by every CPU for every packet
13 |   { packets = 9, per = "1s", algorithm = "sliding-log" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write algorithm = "sliding-window" or "token-bucket"
config.toml:14:3: nodes cannot share limits of `node` of [[interface]]
14 |   { packets = 900, per = "1s", scope = "cluster" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove `scope`, and write the part of each node: the limit divided by the nodes
config.toml:14:3: a limit has scope = "cluster", and there is no [cluster]
14 |   { packets = 900, per = "1s", scope = "cluster" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write [cluster] with `url`, `node`, `secret_file` and `nodes`, or remove `scope`
config.toml:15:39: there is no class `udpp`
15 |   { packets = 90, per = "1s", match = "udpp" },
   |                                       ^^^^^^ did you mean "udp"?
config.toml:19:19: `limits` of `node` of [[interface]] is empty
19 | node = { limits = [] }
   |                   ^^ write limits = [{ packets = 2_000_000, per = "1s" }], or remove `node` of [[interface]]
config.toml:22:10: unknown key `limit` in `node` of [[interface]]
22 | node = { limit = [] }
   |          ^^^^^ did you mean `limits`?
config.toml:25:8: `node` is an integer, not a table
25 | node = 5
   |        ^ write [interface.node] under it"#,
    );
}

#[test]
fn a_policy_of_an_interface_that_is_not_there_and_one_for_nobody_are_refused() {
    check_behind_minimal(
        &format!("[policy.lam]\nlimits = []\n{ETH1}"),
        r#"config.toml:8:1: [policy.lam] has no `sources`
8 | [policy.lam]
  | ^^^^^^^^^^^^ add sources = ["192.0.2.0/24"], or select the policy with `policy` in an [[interface]]
config.toml:12:10: there is no [policy.lan]
12 | policy = "lan"
   |          ^^^^^ did you mean "lam"?"#,
    );
}
