use super::*;

#[test]
fn a_policy_needs_sources_unless_it_is_the_default_one() {
    check_behind_minimal(
        "[policy.a]
limits = []
",
        r#"config.toml:8:1: [policy.a] has no `sources`
8 | [policy.a]
  | ^^^^^^^^^^ add sources = ["192.0.2.0/24"], or select the policy with `policy` in an [[interface]]"#,
    );
    check_behind_minimal(
        "[policy.a]
limits = []
sources = []
",
        "config.toml:10:11: `sources` of [policy.a] is empty
10 | sources = []
   |           ^^ add the sources of the policy, or remove it",
    );
}

#[test]
fn the_default_policy_has_no_sources() {
    check(
        r#"[[interface]]
name = "eth0"
[policy.default]
sources = ["0.0.0.0/0"]
limits = []
"#,
        r#"config.toml:4:11: [policy.default] is for the sources that no other policy is for
4 | sources = ["0.0.0.0/0"]
  |           ^^^^^^^^^^^^^ remove `sources`, or give the policy another name"#,
    );
}

#[test]
fn host_bits_are_refused_with_both_readings() {
    check_behind_minimal(
        r#"[policy.a]
limits = []
sources = ["10.0.0.1/24", "2001:db8::1/64"]
"#,
        r#"config.toml:10:12: host bits are set in `10.0.0.1/24`
10 | sources = ["10.0.0.1/24", "2001:db8::1/64"]
   |            ^^^^^^^^^^^^^ write 10.0.0.0/24 or 10.0.0.1
config.toml:10:27: host bits are set in `2001:db8::1/64`
10 | sources = ["10.0.0.1/24", "2001:db8::1/64"]
   |                           ^^^^^^^^^^^^^^^^ write 2001:db8::/64 or 2001:db8::1"#,
    );
}

#[test]
fn an_invalid_prefix_is_refused() {
    check_behind_minimal(
        r#"[policy.a]
limits = []
sources = ["1.2.3.400", "10.0.0.0/33", "::/129", ""]
"#,
        r#"config.toml:10:12: `1.2.3.400` is not an IPv4 or IPv6 address or prefix
10 | sources = ["1.2.3.400", "10.0.0.0/33", "::/129", ""]
   |            ^^^^^^^^^^^ write for example 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32
config.toml:10:25: `10.0.0.0/33` is longer than IPv4 addresses are
10 | sources = ["1.2.3.400", "10.0.0.0/33", "::/129", ""]
   |                         ^^^^^^^^^^^^^ write a length up to /32
config.toml:10:40: `::/129` is longer than IPv6 addresses are
10 | sources = ["1.2.3.400", "10.0.0.0/33", "::/129", ""]
   |                                        ^^^^^^^^ write a length up to /128
config.toml:10:50: `` is not an IPv4 or IPv6 address or prefix
10 | sources = ["1.2.3.400", "10.0.0.0/33", "::/129", ""]
   |                                                  ^^ write for example 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32"#,
    );
}

#[test]
fn a_prefix_that_appears_twice_in_a_list_is_refused() {
    check_behind_minimal(
        r#"[policy.a]
limits = []
sources = ["10.0.0.0/8", "192.0.2.1/32", "10.0.0.0/255.0.0.0", "192.0.2.1"]
"#,
        r#"config.toml:10:42: 10.0.0.0/8 is listed twice in [policy.a], first at config.toml:10:12
10 | sources = ["10.0.0.0/8", "192.0.2.1/32", "10.0.0.0/255.0.0.0", "192.0.2.1"]
   |                                          ^^^^^^^^^^^^^^^^^^^^ remove it
config.toml:10:64: 192.0.2.1 is listed twice in [policy.a], first at config.toml:10:26
10 | sources = ["10.0.0.0/8", "192.0.2.1/32", "10.0.0.0/255.0.0.0", "192.0.2.1"]
   |                                                                ^^^^^^^^^^^ remove it"#,
    );
    check_behind_minimal(
        r#"[allow]
sources = ["::1", "0:0::1"]
"#,
        r#"config.toml:9:19: ::1 is listed twice in [allow], first at config.toml:9:12
9 | sources = ["::1", "0:0::1"]
  |                   ^^^^^^^^ remove it"#,
    );
}

#[test]
fn a_prefix_of_two_policies_is_refused_with_the_other_place() {
    check_behind_minimal(
        r#"[policy.a]
limits = []
sources = ["10.0.0.0/8"]
[policy.b]
limits = []
sources = ["10.0.0.0/8"]
"#,
        r#"config.toml:13:12: 10.0.0.0/8 is in both [policy.a] and [policy.b], first at config.toml:10:12
13 | sources = ["10.0.0.0/8"]
   |            ^^^^^^^^^^^^ remove it from one of them: a source has one policy"#,
    );
}

#[test]
fn a_prefix_in_a_policy_and_in_a_wider_prefix_of_another_is_accepted() {
    check_behind_minimal(
        r#"[policy.a]
limits = []
sources = ["10.0.0.0/8"]
[policy.b]
limits = []
sources = ["10.1.0.0/16"]
"#,
        "",
    );
}

#[test]
fn a_name_that_cannot_be_a_label_is_refused() {
    check_behind_minimal(
        r#"[policy."10.0.0.0/8"]
limits = []
sources = ["10.0.0.0/8"]
[policy.""]
limits = []
sources = ["10.0.1.0/24"]
"#,
        r#"config.toml:8:9: `10.0.0.0/8` is not a valid name for a policy
8 | [policy."10.0.0.0/8"]
  |         ^^^^^^^^^^^^ write letters, digits, `-` and `_`
config.toml:11:9: `` is not a valid name for a policy
11 | [policy.""]
   |         ^^ write letters, digits, `-` and `_`"#,
    );
}

#[test]
fn what_is_protected_is_neither_everything_nor_more_than_is_looked_through() {
    check_behind_minimal(
        "[protected]\nsources = [\"198.51.100.0/24\", \"::/0\", \"198.51.100.0/24\"]\n",
        r#"config.toml:9:31: ::/0 covers every address: no ban would apply
9 | sources = ["198.51.100.0/24", "::/0", "198.51.100.0/24"]
  |                               ^^^^^^ name the networks, or write observe = true for a dry run
config.toml:9:39: 198.51.100.0/24 is listed twice in [protected], first at config.toml:9:12
9 | sources = ["198.51.100.0/24", "::/0", "198.51.100.0/24"]
  |                                       ^^^^^^^^^^^^^^^^^ remove it"#,
    );
    let sources = (0..257).map(|it| format!("\"10.{}.{}.1\"", it / 256, it % 256));
    let sources: Vec<String> = sources.collect();
    let toml = format!("[protected]\nsources = [\n{}]\n", sources.join(",\n"));
    let expected = "config.toml:266:1: [protected] has more than 256 prefixes
266 | \"10.1.0.1\"]
    | ^^^^^^^^^^ write wider prefixes, or fewer";
    check_behind_minimal(&toml, expected);
}
