//! Settings of a single interface.

use super::{MINIMAL, inspect_files};

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
