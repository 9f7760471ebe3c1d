use ratelimit_common::parse::{Tunnels, tunnel::Tunnel};

use super::*;
use crate::config::tunnels;

#[test]
fn tunnels_are_read_with_their_ports() {
    for (list, text) in [
        ("[]", "none"),
        ("[\"gre\", \"ipip\"]", "gre, ipip"),
        ("[\"vxlan\", \"geneve\"]", "vxlan:4789, geneve:6081"),
        (
            "[\"pppoe\", \"geneve:65535\", \"mpls\", \"vxlan:1\"]",
            "vxlan:1, geneve:65535, mpls, pppoe",
        ),
    ] {
        let config = load_text(&format!("{MINIMAL}[source]\ntunnels = {list}\n"));
        assert_eq!(tunnels::text(config.source.tunnels), text, "{list}");
    }
    assert_eq!(load_text(MINIMAL).source.tunnels, Tunnels::NONE);
    let one = load_text(&format!("{MINIMAL}[source]\ntunnels = [\"vxlan:8472\"]\n"));
    let expected = Tunnels::NONE.with(Tunnel::Vxlan, 8472);
    assert_eq!(one.source.tunnels, expected);
}

#[test]
fn what_is_no_tunnel_is_said_with_what_to_write() {
    check_behind_minimal(
        r#"[source]
tunnels = ["gre", "vxlna:8472", "wireguard", 47]
"#,
        r#"config.toml:9:19: unknown tunnel `vxlna`
9 | tunnels = ["gre", "vxlna:8472", "wireguard", 47]
  |                   ^^^^^^^^^^^^ did you mean "vxlan:8472"?
config.toml:9:33: unknown tunnel `wireguard`
9 | tunnels = ["gre", "vxlna:8472", "wireguard", 47]
  |                                 ^^^^^^^^^^^ write "gre" or "ipip" or "vxlan" or "geneve" or "mpls" or "pppoe"
config.toml:9:46: `tunnels` is an integer, not a string
9 | tunnels = ["gre", "vxlna:8472", "wireguard", 47]
  |                                              ^^ write "gre""#,
    );
    check_behind_minimal(
        r#"[source]
tunnels = "gre"
"#,
        r#"config.toml:9:11: `tunnels` is a string, not a list
9 | tunnels = "gre"
  |           ^^^^^ write tunnels = ["gre", "vxlan:4789"]"#,
    );
}

#[test]
fn a_port_stands_where_there_is_one_and_is_a_port() {
    check_behind_minimal(
        r#"[source]
tunnels = ["gre:47", "vxlan:0", "geneve:65536"]
"#,
        r#"config.toml:9:12: gre has no port
9 | tunnels = ["gre:47", "vxlan:0", "geneve:65536"]
  |            ^^^^^^^^ write "gre"
config.toml:9:22: `0` is not a UDP port
9 | tunnels = ["gre:47", "vxlan:0", "geneve:65536"]
  |                      ^^^^^^^^^ write a number from 1 to 65535, as in "vxlan:4789"
config.toml:9:33: `65536` is not a UDP port
9 | tunnels = ["gre:47", "vxlan:0", "geneve:65536"]
  |                                 ^^^^^^^^^^^^^^ write a number from 1 to 65535, as in "geneve:6081""#,
    );
    check_behind_minimal(
        r#"[source]
tunnels = ["vxlan:+1", "geneve:"]
"#,
        r#"config.toml:9:12: `+1` is not a UDP port
9 | tunnels = ["vxlan:+1", "geneve:"]
  |            ^^^^^^^^^^ write a number from 1 to 65535, as in "vxlan:4789"
config.toml:9:24: `` is not a UDP port
9 | tunnels = ["vxlan:+1", "geneve:"]
  |                        ^^^^^^^^^ write a number from 1 to 65535, as in "geneve:6081""#,
    );
}

#[test]
fn a_tunnel_is_there_once_and_has_a_port_of_its_own() {
    check_behind_minimal(
        r#"[source]
tunnels = ["vxlan", "gre", "vxlan:8472", "geneve:4789"]
"#,
        r#"config.toml:9:28: duplicate vxlan, first at config.toml:9:12
9 | tunnels = ["vxlan", "gre", "vxlan:8472", "geneve:4789"]
  |                            ^^^^^^^^^^^^ keep one of them
config.toml:9:42: geneve and vxlan have the same UDP port 4789, first at config.toml:9:12
9 | tunnels = ["vxlan", "gre", "vxlan:8472", "geneve:4789"]
  |                                          ^^^^^^^^^^^^^ write the port of each, as in "geneve:NUMBER""#,
    );
}

#[test]
fn an_interface_of_a_tunnel_is_judged_twice_beside_another_one() {
    let twice = |interfaces: &[&str], inner: &str, kind| {
        let tables = interfaces.iter();
        let tables = tables.map(|name| format!("[[interface]]\nname = \"{name}\"\n"));
        let tables = tables.collect::<Vec<String>>().concat();
        let config = load_text(&format!(
            "{tables}[source]\ntunnels = [{inner}]\n[policy.default]\nlimits = []\n"
        ));
        config.judged_twice("t0", kind)
    };
    let said = twice(&["eth0", "t0"], "\"gre\", \"vxlan\"", Some("vxlan")).unwrap();
    let told = "remove [[interface]] t0, or \"vxlan:4789\" from `tunnels`";
    assert!(said.ends_with(told), "{said}");
    for (interfaces, inner, kind) in [
        (&["t0"][..], "\"vxlan\"", Some("vxlan")),
        (&["eth0"], "\"vxlan\"", Some("vxlan")),
        (&["eth0", "t0"], "\"gre\"", Some("vxlan")),
        (&["eth0", "t0"], "\"vxlan\"", Some("veth")),
        (&["eth0", "t0"], "\"vxlan\"", None),
    ] {
        assert_eq!(
            twice(interfaces, inner, kind),
            None,
            "{interfaces:?} {inner}"
        );
    }
}
