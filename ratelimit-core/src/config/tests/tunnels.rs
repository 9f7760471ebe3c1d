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
