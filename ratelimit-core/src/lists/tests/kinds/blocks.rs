//! Lists in braces.

use super::*;

#[test]
fn lists_in_braces_are_read() {
    let three = "192.0.2.0/24\n198.51.100.7\n2001:db8::/32";
    for (text, expected, skipped) in [
        (
            "acl bad {\n\t192.0.2/24;\n\t198.51.100.7; // why\n\t2001:db8::/32; /* x */\n};\n",
            three,
            &[][..],
        ),
        ("acl \"bad\"\n{\n  192.0.2.0/24;\n};\n", "192.0.2.0/24", &[]),
        (
            "options {\n  forwarders { 9.9.9.9; };\n  blackhole { 192.0.2.0/24; };\n};\n",
            "192.0.2.0/24",
            &[("of another statement", 1)],
        ),
        (
            "acl bad { 192.0.2.0/24; { 198.51.100.7; }; localhost; key \"k\"; };\n",
            "192.0.2.0/24\n198.51.100.7",
            &[(NAME, 2)],
        ),
        (
            "acl bad -pedantic {\n  \"192.0.2.0\"/24;\n  \"198.51.100.7\"; # why\n  \
             \"2001:db8::\"/32;\n  \"a.example\";\n}\n\
             sub vcl_recv { if (client.ip ~ bad) { return (synth(403)); } }\n",
            three,
            &[(NAME, 1)],
        ),
        (
            "policy-options {\n  prefix-list bad {\n    /* why */\n    192.0.2.0/24;\n    \
             inactive: 203.0.113.0/24;\n    198.51.100.7/32;\n    2001:db8::/32;\n  }\n}\n",
            three,
            &[("disabled", 1)],
        ),
        (
            "firewall {\n  group {\n    network-group bad {\n      network 192.0.2.0/24\n      \
             network 198.51.100.7/32\n    }\n  }\n}\n",
            "192.0.2.0/24\n198.51.100.7",
            &[],
        ),
    ] {
        check(text, Format::Blocks, expected, skipped);
    }
}

#[test]
fn exceptions_and_second_lists_in_braces_are_refused() {
    for (text, expected) in [
        (
            "acl bad { !192.0.2.1; 192.0.2.0/24; };\n",
            "list:1:11: !192.0.2.1 is an exception from the list",
        ),
        (
            "acl bad {\n  ! \"192.0.2.1\";\n  \"192.0.2.0\"/24;\n}\n",
            "list:2:3: !\"192.0.2.1\" is an exception",
        ),
        (
            "acl bad { 192.0.2.0/24; !{ 192.0.2.1; }; };\n",
            "list:1:25: this is an exception",
        ),
        (
            "acl good { 10.0.0.0/8; };\nacl bad { 192.0.2.0/24; };\n",
            "there is a second set, `bad`, after `good`",
        ),
        ("acl bad {\n  192.0.2.0/24;\n", "the list has no end"),
        (
            "acl bad { 192.0.2.0/24; };\n192.0.2.9;\n",
            "not part of a rule",
        ),
    ] {
        refuse(text, expected);
    }
}
