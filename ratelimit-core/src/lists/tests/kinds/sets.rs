//! Sets of ipset, firewalld and nft.

use super::*;

#[test]
fn all_that_ipset_writes_and_restores_is_read() {
    check(
        "create bad hash:net family inet hashsize 1024 maxelem 65536 timeout 300 counters comment \
         skbinfo\n\
         add bad 192.0.2.0/24 timeout 299 packets 10 bytes 840 comment \"say \\\"hi\\\"\" skbmark \
         0x10/0xffffffff skbprio 1:10\n\
         add bad 198.51.100.0/25 timeout 5 packets 0 bytes 0 comment \"\"\n",
        Format::Ipset,
        "192.0.2.0/24 +299s say \"hi\"\n198.51.100.0/25 +5s",
        &[],
    );
    check(
        "create tmp -exist hash:net family inet\n\
         flush tmp\n\
         add tmp 192.0.2.0/24 -exist\n\
         add -exist tmp 198.51.100.7\n\
         add tmp 198.51.100.8\n\
         del tmp 198.51.100.8\n\
         swap tmp bad\n\
         destroy tmp\n\
         COMMIT\n\
         quit\n",
        Format::Ipset,
        "192.0.2.0/24\n198.51.100.7",
        &[],
    );
    check(
        "Name: bad\n\
         Type: hash:net\n\
         Revision: 7\n\
         Header: family inet hashsize 1024 maxelem 65536 timeout 60\n\
         Size in memory: 1240\n\
         References: 1\n\
         Number of entries: 2\n\
         Members:\n\
         192.0.2.0/24 timeout 30 comment \"a b\"\n\
         198.51.100.7\n\n\
         Name: ports\n\
         Type: hash:ip,port\n\
         Header: family inet\n\
         Members:\n\
         192.0.2.1,tcp:22\n",
        Format::Ipset,
        "192.0.2.0/24 +30s a b\n198.51.100.7 +60s",
        &[("of a set of another type", 1)],
    );
    check(
        "#!/bin/sh\n\
         set -e\n\
         ipset create bad hash:ip\n\
         sudo /sbin/ipset -exist add bad 192.0.2.1\n\
         ipset -A bad 192.0.2.2\n",
        Format::Ipset,
        "192.0.2.1\n192.0.2.2",
        &[("not an ipset command", 1)],
    );
    check(
        "<ipsets>\n\
         <ipset name=\"bad\">\n\
         <type>hash:net</type>\n\
         <header><timeout>300</timeout></header>\n\
         <members>\n\
         <member><elem>192.0.2.0/24</elem><timeout>299</timeout>\
         <comment>\"why\"</comment></member>\n\
         <member><elem>198.51.100.7</elem></member>\n</members>\n</ipset>\n</ipsets>\n",
        Format::IpsetXml,
        "192.0.2.0/24 +299s why\n198.51.100.7",
        &[],
    );
}

#[test]
fn sets_and_rules_of_firewalld_are_read() {
    check(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <ipset type=\"hash:net\">\n  \
         <short>bad</short>\n  \
         <entry>192.0.2.0/24</entry>\n  \
         <entry>198.51.100.7</entry>\n\
         </ipset>\n",
        Format::IpsetXml,
        "192.0.2.0/24\n198.51.100.7",
        &[],
    );
    check(
        "<zone>\n\
         <rule family=\"ipv4\"><source address=\"192.0.2.5\"/><drop/></rule>\n\
         <rule><source address=\"192.0.2.6\"/><port port=\"22\" \
         protocol=\"tcp\"/><reject/></rule>\n\
         <rule><source address=\"192.0.2.7\"/><accept/></rule>\n\
         </zone>\n",
        Format::IpsetXml,
        "192.0.2.5",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
    check(
        "rule family=\"ipv4\" source address=\"192.0.2.5\" drop\n\
         rule family=\"ipv4\" source address=\"192.0.2.6\" service name=\"ssh\" drop\n",
        Format::Rules,
        "192.0.2.5",
        &[(CONDITIONS, 1)],
    );
    let bad = read_text("<ipset type=\"hash:ip\">\n<entry>192.0.2.1</entri>\n")
        .unwrap()
        .bad;
    assert!(
        bad.to_string()
            .contains("see whether all of the file was saved"),
        "{bad}"
    );
}

#[test]
fn numbers_of_nft_may_be_texts() {
    check(
        r#"{"nftables": [{"set": {"family": "inet", "name": "a", "table": "t", "type": "ipv4_addr", "timeout": "14400", "elem": [{"elem": {"val": "192.0.2.7", "timeout": "14400", "expires": 14000}}, {"prefix": {"addr": "198.51.100.0", "len": "24"}}]}}]}"#,
        Format::NftJson,
        "192.0.2.7 +14000s\n198.51.100.0/24",
        &[],
    );
}

#[test]
fn sets_with_many_names_are_read_once() {
    let lines = (0..100_000).map(|number| format!("add set{number} 192.0.2.1"));
    let many = lines.collect::<Vec<_>>().join("\n");
    // Comparing each name with all before it would take minutes.
    let bad = read_text(&many).unwrap().bad;
    assert!(
        bad.to_string()
            .contains("there is a second set, `set1`, after `set0`")
    );
}
