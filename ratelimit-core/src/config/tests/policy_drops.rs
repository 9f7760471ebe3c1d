//! `action = "drop"` of a policy.

use super::{check, check_warnings};

#[test]
fn what_a_policy_that_drops_everything_cannot_have_is_refused() {
    check(
        r#"[[interface]]
name = "eth0"
policy = "lan"
[[interface]]
name = "eth1"
policy = "office"
[policy.default]
action = "drop"
limits = []
[policy.lan]
action = "drop"
ban = { after = 9, within = "1s", for = "1m" }
connections = 9
[policy.office]
action = "pass"
limits = []
"#,
        r#"config.toml:3:10: [policy.lan] has action = "drop", which is not possible for an interface
3 | policy = "lan"
  |          ^^^^^ give the policy `sources`, or write limits = [{ bytes = 1, per = "1h" }] in it
config.toml:6:10: [policy.default] drops every packet, also where an interface has [policy.office]
6 | policy = "office"
  |          ^^^^^^^^ remove `policy` here, and give that policy `sources`
config.toml:9:10: [policy.default] drops every packet, so `limits` has no effect
9 | limits = []
  |          ^^ remove `limits`, or `action`
config.toml:12:7: [policy.lan] drops every packet, so `ban` has no effect
12 | ban = { after = 9, within = "1s", for = "1m" }
   |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove `ban`, or `action`
config.toml:13:15: [policy.lan] drops every packet, so `connections` has no effect
13 | connections = 9
   |               ^ remove `connections`, or `action`
config.toml:15:10: unknown action `pass`
15 | action = "pass"
   |          ^^^^^^ write "drop""#,
    );
}

#[test]
fn a_policy_that_drops_everything_where_nothing_is_let_in_is_warned_of() {
    let interface = "[[interface]]\nname = \"eth0\"\n";
    let deny = format!("{interface}[policy.default]\naction = \"drop\"\n");
    check_warnings(
        &deny,
        "config.toml:3:1: [policy.default] drops every packet, and nothing lets a source in\n\
         3 | [policy.default]\n  \
         | ^^^^^^^^^^^^^^^^ add sources to [allow], or to another policy: your own address, \
         gateways and resolvers (`rlctl list protected`)",
    );
    for lets_in in [
        "[allow]\nsources = [\"192.0.2.1\"]\n",
        "[policy.a]\nsources = [\"192.0.2.1\"]\nlimits = []\n",
        "[list.a]\nfile = \"/a\"\naction = \"allow\"\n",
    ] {
        check_warnings(&format!("{deny}{lets_in}"), "");
    }
    check_warnings(&format!("observe = true\n{deny}observe = true\n"), "");
}
