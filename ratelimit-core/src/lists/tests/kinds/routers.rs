//! Lists of routers, registries and programs for file sharing.

use super::*;

#[test]
fn ranges_of_p2p_and_lines_of_other_tools_are_read() {
    check(
        "# list\nSome net:192.0.2.0-192.0.2.255\nOther: more:198.51.100.7-198.51.100.7\n",
        Format::Ranges,
        "192.0.2.0/24 Some net\n198.51.100.7 Other: more",
        &[],
    );
    check(
        "192.000.002.000 - 192.000.002.255 , 000 , Some net\n\
         198.051.100.000 - 198.051.100.255 , 200 , good\n",
        Format::Ranges,
        "192.0.2.0/24 Some net",
        &[("let in by their level", 1)],
    );
    check(
        "drop ip [192.0.2.0/24,198.51.100.7] any -> $HOME_NET any (msg:\"ET DROP a\"; sid:1;)\n\
         alert tcp $EXTERNAL_NET any -> $HOME_NET 22 (msg:\"x\";)\n",
        Format::Rules,
        "192.0.2.0/24 ET DROP a\n198.51.100.7 ET DROP a",
        &[(CONDITIONS, 1)],
    );
    check(
        "ip access-list extended BAD\n \
         10 deny ip 192.0.2.0 0.0.0.255 any log\n \
         20 deny ip host 198.51.100.7 any\n \
         30 deny tcp host 198.51.100.8 any eq 22\n \
         40 permit ip any any\n\
         access-list 10 deny 203.0.113.0 0.0.0.255\n\
         ip route 203.0.113.7 255.255.255.255 Null0\n",
        Format::Rules,
        "192.0.2.0/24\n198.51.100.7\n203.0.113.0/24\n203.0.113.7",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
    check(
        "ip route add blackhole 192.0.2.0/24\nblackhole 198.51.100.7\n",
        Format::Rules,
        "192.0.2.0/24\n198.51.100.7",
        &[],
    );
    check(
        "acl bad src 192.0.2.1 198.51.100.0/24\n",
        Format::Rules,
        "192.0.2.1\n198.51.100.0/24",
        &[],
    );
    check(
        "ExitNode 0011BD2485AD45D984EC4159C88FC066E5E3300E\n\
         Published 2026-11-27 12:00:00\n\
         LastStatus 2026-11-27 13:00:00\n\
         ExitAddress 192.0.2.5 2026-11-27 13:01:00\n",
        Format::Rules,
        "192.0.2.5",
        &[],
    );
}

#[test]
fn prefixes_of_registries_and_routers_are_read() {
    for (text, expected, skipped) in [
        (
            "route:   192.0.2.0/24\ndescr:   a\n\ninet6num:  2001:db8::/32\n",
            "192.0.2.0/24\n2001:db8::/32",
            &[][..],
        ),
        (
            "2|ripencc|1|3|1|1|+0\nripencc|*|ipv4|*|1|summary\n\
             ripencc|NL|ipv4|192.0.2.0|192|1|allocated\n\
             ripencc|NL|ipv6|2001:db8::|32|1|allocated\n",
            "192.0.2.0/25\n192.0.2.128/26\n2001:db8::/32",
            &[],
        ),
        (
            "no ip prefix-list A\nip prefix-list A seq 5 permit 192.0.2.0/24 le 32\n\
             ip prefix-list A deny 198.51.100.0/24\n",
            "192.0.2.0/24",
            &[(NO_DROP, 1)],
        ),
        (
            "set policy-options prefix-list A 192.0.2.0/24\n",
            "192.0.2.0/24",
            &[],
        ),
        (
            "object-group network A\n network-object host 192.0.2.1\n \
             network-object 198.51.100.0 255.255.255.0\n",
            "192.0.2.1\n198.51.100.0/24",
            &[],
        ),
        (
            "access-control: 192.0.2.1 refuse\naccess-control: 192.0.2.2 allow\n",
            "192.0.2.1",
            &[(NO_DROP, 1)],
        ),
        (
            "add 100 deny ip from 192.0.2.1 to any\n00200 deny tcp from 192.0.2.2 to any\n",
            "192.0.2.1",
            &[(CONDITIONS, 1)],
        ),
        (
            "blackhole 192.0.2.0/24\n198.51.100.0/24 dev eth1 src 198.51.100.1\n",
            "192.0.2.0/24",
            &[("of another line", 1)],
        ),
    ] {
        check(text, Format::Rules, expected, skipped);
    }
    check(
        "table inet f {\n\tset good {\n\t\ttype ipv4_addr\n\t\telements = { 192.0.2.1 }\n\t}\n\
         \tchain input {\n\t\tip saddr { 192.0.2.2, 192.0.2.3 } counter packets 0 bytes 0 drop\n\
         \t\tip saddr @good drop\n\t\tip saddr 192.0.2.4 tcp dport 22 drop\n\
         \t\tiifname \"a\" ip saddr 192.0.2.5 drop\n\t\tip saddr != 192.0.2.6 drop\n\t}\n}\n\
         add rule inet f input ip saddr 192.0.2.7 drop\n",
        Format::Nft,
        "192.0.2.1\n192.0.2.2\n192.0.2.3\n192.0.2.7",
        &[(CONDITIONS, 3)],
    );
}

#[test]
fn members_of_groups_are_read() {
    for (text, expected, skipped) in [
        (
            "object-group network A\n host 192.0.2.1\n 198.51.100.0 255.255.255.0\n \
             range 203.0.113.4 203.0.113.7\n description x\n",
            "192.0.2.1\n198.51.100.0/24\n203.0.113.4/30",
            &[][..],
        ),
        (
            "object-group ip address A\n  10 host 192.0.2.1\n  20 198.51.100.0/24\n  \
             30 203.0.113.0 0.0.0.255\n",
            "192.0.2.1\n198.51.100.0/24\n203.0.113.0/24",
            &[],
        ),
        (
            "object network A\n subnet 192.0.2.0 255.255.255.0\n",
            "192.0.2.0/24",
            &[],
        ),
        (
            "ip prefix-list A: 2 entries\n   seq 5 permit 192.0.2.0/24\n   seq 10 deny \
             198.51.100.0/24\n",
            "192.0.2.0/24",
            &[(NO_DROP, 1)],
        ),
        (
            "ipv4 access-list A\n 10 deny ipv4 192.0.2.0/24 any\n 20 permit ipv4 any any\n",
            "192.0.2.0/24",
            &[(NO_DROP, 1)],
        ),
        (
            "set firewall group network-group A network '192.0.2.0/24'\n\
             set firewall group network-group A description 'a'\n\
             set firewall group network-group A network '198.51.100.4-198.51.100.7'\n",
            "192.0.2.0/24\n198.51.100.4/30",
            &[(NAME, 1)],
        ),
        (
            "set policy-options prefix-list A 192.0.2.0/24\n\
             set policy-options prefix-list A 198.51.100.0/24\n\
             delete policy-options prefix-list A 198.51.100.0/24\n",
            "192.0.2.0/24",
            &[],
        ),
        (
            "set address a ip-netmask 192.0.2.0/24\nset address b ip-range 192.0.3.0-192.0.3.1\n",
            "192.0.2.0/24\n192.0.3.0/31",
            &[],
        ),
    ] {
        check(text, Format::Rules, expected, skipped);
    }
}

/// The others may have the addresses of friends.
#[test]
fn lists_with_several_names_are_refused() {
    for text in [
        "acl good src 10.0.0.0/8\nacl bad src 192.0.2.0/24\nhttp_access deny bad\n",
        "ip prefix-list good permit 10.0.0.0/8\nip prefix-list bad permit 192.0.2.0/24\n",
        "object-group network good\n host 10.0.0.1\nobject-group network bad\n host 192.0.2.1\n",
        "set policy-options prefix-list good 10.0.0.0/8\n\
         set policy-options prefix-list bad 192.0.2.0/24\n",
    ] {
        refuse(text, "there is a second set, `bad`, after `good`");
    }
    refuse(
        "set policy prefix-list A rule 10 action 'deny'\n\
         set policy prefix-list A rule 10 prefix '192.0.2.0/24'\n",
        "list:1:1: this rule is an exception from the list",
    );
}
