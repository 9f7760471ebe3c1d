//! What an interface has of its own.

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
fn a_policy_of_an_interface_that_is_not_there_and_one_for_nobody_are_refused() {
    check_behind_minimal(
        &format!("[policy.lam]\nlimits = []\n{ETH1}"),
        r#"config.toml:8:1: [policy.lam] has no `sources`
8 | [policy.lam]
  | ^^^^^^^^^^^^ write for whom it is: sources = ["192.0.2.0/24"], or name it by `policy` in an [[interface]]
config.toml:12:10: there is no [policy.lan]
12 | policy = "lan"
   |          ^^^^^ did you mean "lam"?"#,
    );
}
