//! Lists of every kind that operators have: as the tools write them, with other addresses and cut.

use super::*;

/// The format of a text, its entries, and the lines that were left out.
fn check(text: &str, format: Format, expected: &str, skipped: &[(&str, usize)]) {
    let reading = read_text(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(reading.bad.to_string(), "", "{text}");
    assert_eq!(reading.format, format, "{text}");
    assert_eq!(entries(&reading), expected, "{text}");
    let left_out = reading.skipped.iter();
    let left_out: Vec<(&str, usize)> = left_out
        .map(|(why, count)| (why.as_str(), *count))
        .collect();
    assert_eq!(left_out, skipped, "{text}");
}

const CONDITIONS: &str = "of a rule with other conditions";
const NO_DROP: &str = "of a rule that does not drop";
const NO_SOURCE: &str = "of a rule without a source";

#[test]
fn a_number_behind_an_address_says_how_often_it_was_seen() {
    let text = "# IP\tnumber of lists\n192.0.2.20\t10\n192.0.2.102\t3\n198.51.100.53\t9\n";
    check(
        text,
        Format::Plain,
        "192.0.2.20\n192.0.2.102\n198.51.100.53",
        &[],
    );
    let read = |text: &str| {
        let vetting = Vetting {
            min_count: Some(9),
            ..Vetting::default()
        };
        read_bytes(text.as_bytes(), vetting)
    };
    let reading = read(text).unwrap();
    assert_eq!(entries(&reading), "192.0.2.20\n198.51.100.53");
    assert_eq!(reading.skipped.get("seen fewer than 9 times"), Some(&1));
    let error = read("192.0.2.1\n").unwrap_err().error;
    assert_eq!(error, "list: no entry has a number after the address");
    let table = "ip,country,score\n192.0.2.1,NL,3\n192.0.2.2,NL,100\n";
    assert_eq!(entries(&read(table).unwrap()), "192.0.2.2");
}

#[test]
fn comments_begin_with_two_slashes_too() {
    check(
        "// daily\n\n192.0.2.7 // why\n198.51.100.8\n",
        Format::Plain,
        "192.0.2.7 why\n198.51.100.8",
        &[],
    );
}

#[test]
fn several_addresses_stand_on_a_line_where_that_can_be_nothing_else() {
    let three = "192.0.2.5\n198.51.100.6\n2001:db8::5";
    check(
        "192.0.2.5 198.51.100.6 2001:db8::5",
        Format::Plain,
        three,
        &[],
    );
    check(
        "192.0.2.5,198.51.100.6,2001:db8::5\n",
        Format::Plain,
        three,
        &[],
    );
    check(
        "192.0.2.5 203.0.113.6\n",
        Format::Plain,
        "192.0.2.5\n203.0.113.6",
        &[],
    );
    for (text, hint) in [
        (
            "192.0.2.1 192.0.2.9",
            "write 192.0.2.1-192.0.2.9 for a range, or each in a line of its own",
        ),
        (
            "192.0.2.1;192.0.2.2",
            "write one address, prefix or range per line",
        ),
        (
            "192.0.2.1, 192.0.2.2",
            "write one address, prefix or range per line",
        ),
        (
            "192.0.2.1 203.0.113.9\n192.0.2.2\n",
            "write 192.0.2.1-203.0.113.9 for a range",
        ),
    ] {
        let reading = read_text(text).unwrap();
        let bad = reading.bad.to_string();
        assert!(bad.contains("two addresses on one line"), "{bad}");
        assert!(bad.contains(hint), "{bad}");
        assert_eq!(reading.bad.count, 1, "{text}");
    }
}

#[test]
fn what_is_nearly_an_address_is_refused_with_the_address() {
    for (text, hint) in [
        ("192.0.2.1.", "^ write 192.0.2.1"),
        ("192.0.2.1,", "^ write 192.0.2.1"),
        ("192.0.2.*", "^ write 192.0.2.0/24"),
        ("192.0.2.0 255.255.255.0", "^ write 192.0.2.0/24"),
        ("192[.]0[.]2[.]1", "^ write 192.0.2.1"),
        ("https://192.0.2.1/x", "^ write 192.0.2.1"),
        ("\u{201c}192.0.2.1\u{201d}", "^ write 192.0.2.1"),
        ("192.0.2.1\u{2013}192.0.2.9", "^ write 192.0.2.1-192.0.2.9"),
        ("192.0.2.010-192.0.2.020", "^ write 192.0.2.10-192.0.2.20"),
        (
            "192.0.2.42.3254.198.51.100.223",
            "two addresses run together",
        ),
        ("2001:db8:1:2:3:4:5:6:7", "write eight"),
        ("!192.0.2.1", "rlctl allow add"),
    ] {
        let bad = read_text(text).unwrap().bad;
        assert!(
            bad.count == 1 && bad.to_string().contains(hint),
            "{text}\n{bad}"
        );
    }
    let bad = read_text("192.0.2.1\u{200b}\n").unwrap().bad.to_string();
    assert_eq!(
        bad,
        "list:1:1: `192.0.2.1\\u{200b}` has invisible characters\n\
         1 | 192.0.2.1\\u{200b}\n  | ^^^^^^^^^^^^^^^^^ write 192.0.2.1"
    );
}

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
fn decisions_of_crowdsec_end_as_go_says() {
    check(
        "[{\"id\":91,\"decisions\":[{\"duration\":\"512.3µs\",\"type\":\"ban\",\"scope\":\"Ip\",\
         \"value\":\"198.51.100.10\"},{\"duration\":\"-3h4m\",\"type\":\"ban\",\"scope\":\"Ip\",\
         \"value\":\"198.51.100.9\"},{\"duration\":\"1.5h\",\"type\":\"ban\",\"scope\":\"Range\",\
         \"value\":\"192.0.2.77/25\"}]}, \
         {\"decisions\":null}]",
        Format::CrowdSecJson,
        "198.51.100.10 +0s\n192.0.2.0/25 +5400s",
        &[("ended already", 1)],
    );
    check(
        "{\n \
         \"capacity\": 0,\n \
         \"decisions\": \
         [{\"duration\": \"3h59m\", \"scope\": \"Ip\", \"type\": \"ban\", \
         \"value\": \"192.0.2.1\", \
         \"scenario\": \"manual\"}],\n \
         \"id\": 90\n\
         }",
        Format::CrowdSecJson,
        "192.0.2.1 +14340s manual",
        &[],
    );
    check(
        "{\"new\":[{\"duration\":\"4h\",\"scope\":\"Ip\",\"type\":\"ban\",\
         \"value\":\"192.0.2.1\"}],\"deleted\":[{\"value\":\"192.0.2.2\"}]}",
        Format::CrowdSecJson,
        "192.0.2.1 +14400s",
        &[],
    );
}

#[test]
fn what_fail2ban_shows_is_read_with_ends() {
    check(
        "[{'sshd': ['192.0.2.5', '2001:db8::5']}, {'recidive': []}, {'nginx': ['198.51.100.6']}]\n",
        Format::Fail2ban,
        "192.0.2.5 fail2ban sshd\n2001:db8::5 fail2ban sshd\n198.51.100.6 fail2ban nginx",
        &[],
    );
    check(
        "Status for the jail: sshd\n\
         |- Filter\n\
         |  |- Currently failed: 2\n\
         |  `- File list:        /var/log/auth.log\n\
         `- Actions\n   \
         |- Total banned:     40\n   \
         `- Banned IP list:   192.0.2.5 198.51.100.6\n",
        Format::Fail2ban,
        "192.0.2.5 fail2ban sshd\n198.51.100.6 fail2ban sshd",
        &[],
    );
    let zone = jiff::tz::TimeZone::system();
    let at = |seconds| {
        let end = now() + jiff::SignedDuration::from_secs(seconds);
        end.to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string()
    };
    check(
        &format!(
            "192.0.2.5 \t{} + 600 = {}\n\
             198.51.100.6 \t{} + -1 = 9999-12-31 23:59:59\n\
             192.0.2.7 \t{} + 60 = {}\n",
            at(0),
            at(600),
            at(0),
            at(-120),
            at(-60)
        ),
        Format::Fail2ban,
        "192.0.2.5 +600s\n198.51.100.6",
        &[("ended already", 1)],
    );
}

#[test]
fn a_table_names_its_column_of_addresses() {
    check(
        "ip,country_code,abuse_confidence_score,last_reported_at\n\
         192.0.2.5,CN,100,2026-11-27T15:17:02+00:00\n\
         2001:db8::5,DE,100,x\n",
        Format::Csv,
        "192.0.2.5\n2001:db8::5",
        &[],
    );
    check(
        "################\n\
         # Feodo Tracker\n\
         #\n\
         # Firstseen,DstIP,DstPort,LastOnline,Malware\n\
         2021-01-17 07:44:46,192.0.2.5,443,2026-11-27,Dridex\n\
         2022-01-17 07:44:46,192.0.2.6,80,2026-11-27,QakBot\n\
         # END 2 entries\n",
        Format::Csv,
        "192.0.2.5 Dridex\n192.0.2.6 QakBot",
        &[],
    );
    check(
        "\"first_seen_utc\",\"dst_ip\",\"dst_port\"\n\"2021-01-17\",\"192.0.2.5\",\"443\"\n",
        Format::Csv,
        "192.0.2.5",
        &[],
    );
    check(
        "# DShield.org Recommended Block List\n\
         Start\tEnd\tNetblock\tAttacks\tName\tCountry\n\
         192.0.2.0\t192.0.2.255\t24\t3082\tEXAMPLE\tUS\n",
        Format::Csv,
        "192.0.2.0/24 EXAMPLE",
        &[],
    );
    check(
        "198.51.100.0\t198.51.100.255\t64496\tUS\tEXAMPLE\n\
         203.0.113.0\t203.0.113.255\t64497\tUS\tOTHER\n",
        Format::Csv,
        "198.51.100.0/24\n203.0.113.0/24",
        &[],
    );
    check(
        "id;ioc;type\n1;192.0.2.5:443;ip:port\n2;example.net;domain\n",
        Format::Csv,
        "192.0.2.5",
        &[("of no address but something else", 1)],
    );
    check(
        "192.0.2.5,443,malware\n192.0.2.6,80,spam\n",
        Format::Csv,
        "192.0.2.5\n192.0.2.6",
        &[],
    );
    check(
        "# \"first_seen_utc\",\"ioc_id\",\"ioc_value\",\"ioc_type\"\n\
         \"2026-11-27\", \"1\", \"192.0.2.83:443\", \"ip:port\"\n\
         \"2026-11-27\", \"2\", \"evil.example\", \"domain\"\n",
        Format::Csv,
        "192.0.2.83",
        &[("of no address but something else", 1)],
    );
    check(
        "\"IP\"\n\"192.0.2.1\"\n2001:db8::1\n",
        Format::Csv,
        "192.0.2.1\n2001:db8::1",
        &[],
    );
    let bad = read_text("ip,country\n192.0.2.300,NL\n192.0.2.1,NL\n")
        .unwrap()
        .bad
        .to_string();
    assert!(
        bad.starts_with("list:2:1: `192.0.2.300` is not an address"),
        "{bad}"
    );
    let reading = read_text("ip,country\n192.0.2.1,NL\n").unwrap();
    assert_eq!(reading.notes, ["addresses from column `ip`"]);
    let reading = read_text("7,192.0.2.1\n8,192.0.2.2\n").unwrap();
    assert_eq!(reading.notes, ["addresses from column 2"]);
}

#[test]
fn addresses_of_any_json_are_found_by_their_keys() {
    check(
        "{\n \
         \"syncToken\": \"1700000000\",\n \
         \"prefixes\": [{\"ip_prefix\": \"192.0.2.0/24\", \"region\": \"eu-west-1\"}],\n \
         \"ipv6_prefixes\": [{\"ipv6_prefix\": \"2001:db8::/32\"}]\n\
         }",
        Format::Json,
        "192.0.2.0/24\n2001:db8::/32",
        &[],
    );
    check(
        "[\"192.0.2.0/24\",\"2001:db8::/32\"]",
        Format::Json,
        "192.0.2.0/24\n2001:db8::/32",
        &[],
    );
    check(
        "{\"meta\":{\"generatedAt\":\"2026-11-27T16:00:04+00:00\"},\
         \"data\":[{\"ipAddress\":\"192.0.2.5\",\"abuseConfidenceScore\":100}]}",
        Format::Json,
        "192.0.2.5",
        &[],
    );
    // GitHub, Azure, Google, Oracle, Fastly, Cloudflare.
    for (text, expected) in [
        (
            r#"{"ssh_keys":["ssh-ed25519 AAAA"],"hooks":["192.0.2.0\/24"],"domains":{"website":["*.example.net"]}}"#,
            "192.0.2.0/24",
        ),
        (
            r#"{"changeNumber":1,"values":[{"name":"x","properties":{"addressPrefixes":["192.0.2.0/24","2001:db8::/48"]}}]}"#,
            "192.0.2.0/24\n2001:db8::/48",
        ),
        (
            r#"{"prefixes":[{"ipv4Prefix":"192.0.2.0/24","scope":"a"},{"ipv6Prefix":"2001:db8::/48"}]}"#,
            "192.0.2.0/24\n2001:db8::/48",
        ),
        (
            r#"{"regions":[{"region":"x","cidrs":[{"cidr":"192.0.2.0/24","tags":["OCI"]}]}]}"#,
            "192.0.2.0/24",
        ),
        (
            r#"{"addresses":["192.0.2.0/24"],"ipv6_addresses":["2001:db8::/48"]}"#,
            "192.0.2.0/24\n2001:db8::/48",
        ),
        (
            r#"{"result":{"ipv4_cidrs":["192.0.2.0/24"],"etag":"x"},"success":true,"errors":[],"messages":[]}"#,
            "192.0.2.0/24",
        ),
        (
            r#"{"192.0.2.1":{"count":3,"peer":"198.51.100.1"},"192.0.2.2":{"count":1}}"#,
            "192.0.2.1\n192.0.2.2",
        ),
        (
            "{\"src_ip\":\"192.0.2.1\",\"dest_ip\":\"198.51.100.1\"}\n\
             {\"src_ip\":\"192.0.2.2\",\"dest_ip\":\"198.51.100.1\"}\n",
            "192.0.2.1\n192.0.2.2",
        ),
    ] {
        check(text, Format::Json, expected, &[]);
    }
}

#[test]
fn a_json_path_chooses_other_keys_and_a_note_says_which() {
    let text = r#"{"a":[{"src":"192.0.2.1","dst":"198.51.100.1"}]}"#;
    let read = |path: &str| {
        let vetting = Vetting {
            json_path: Some(path.to_owned()),
            ..Vetting::default()
        };
        read_bytes(text.as_bytes(), vetting).unwrap()
    };
    for path in ["dst", "a.dst", "$.a[*].dst", ".a[].dst"] {
        let reading = read(path);
        assert_eq!(entries(&reading), "198.51.100.1", "{path}");
        assert_eq!(
            reading.notes,
            ["addresses from a.dst; --json-path chooses others"]
        );
    }
    let bad = read("$.dst").bad.to_string();
    assert!(
        bad.contains("there is no text under the key `$.dst`: addresses are under `a.src, a.dst`"),
        "{bad}"
    );
    let vetting = Vetting {
        json_path: Some("source.ip".to_owned()),
        ..Vetting::default()
    };
    let alerts = br#"[{"decisions":[{"value":"192.0.2.1"}],"source":{"ip":"198.51.100.1"}}]"#;
    let reading = read_bytes(alerts, vetting.clone()).unwrap();
    assert_eq!(entries(&reading), "198.51.100.1");
    let error = read_bytes(b"192.0.2.1\n", vetting).unwrap_err().error;
    assert_eq!(error, "list: is plain, and has no key source.ip");
    let bad = read_text(text).unwrap().bad.to_string();
    assert!(
        bad.contains("several keys have addresses: `a.src, a.dst`"),
        "{bad}"
    );
    assert!(bad.contains("--json-path KEY"), "{bad}");
}

#[test]
fn lists_of_spamhaus_may_follow_each_other() {
    check(
        "{\"cidr\":\"192.0.2.0/24\",\"sblid\":\"SBL1\"}\n{\"type\":\"metadata\",\"records\":1}\n\
         {\"cidr\":\"2001:db8::/32\",\"sblid\":\"SBL2\"}\n{\"type\":\"metadata\",\"records\":1}\n",
        Format::DropJson,
        "192.0.2.0/24 SBL1\n2001:db8::/32 SBL2",
        &[],
    );
}

#[test]
fn json_documents_may_follow_each_other_without_a_line_break() {
    for (format, one, other, end) in [
        (
            Format::DropJson,
            "{\"cidr\":\"192.0.2.0/24\"}",
            "{\"cidr\":\"2001:db8::/32\"}",
            "{\"type\":\"metadata\",\"records\":2}",
        ),
        (
            Format::NftJson,
            "{\"nftables\":[{\"set\":{\"name\":\"a\",\"type\":\"ipv4_addr\",\"elem\":[{\"prefix\":\
             {\"addr\":\"192.0.2.0\",\"len\":24}}]}}]}",
            "{\"nftables\":[{\"set\":{\"name\":\"b\",\"type\":\"ipv6_addr\",\"elem\":[{\"prefix\":\
             {\"addr\":\"2001:db8::\",\"len\":32}}]}}]}",
            "",
        ),
        (
            Format::CrowdSecJson,
            "[{\"value\":\"192.0.2.0/24\",\"duration\":\"4h\",\"scope\":\"Range\"}]",
            "[{\"value\":\"2001:db8::/32\",\"duration\":\"4h\",\"scope\":\"Range\"}]",
            "null",
        ),
        (
            Format::Own,
            "{\"prefix\":\"192.0.2.0/24\"}",
            "{\"prefix\":\"2001:db8::/32\"}",
            "",
        ),
    ] {
        for between in ["", " ", "\n"] {
            let text = format!("{one}{between}{other}{between}{end}\n");
            let reading = read_text(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
            assert_eq!(reading.bad.to_string(), "", "{text}");
            assert_eq!(reading.format, format, "{text}");
            let prefixes: Vec<String> = reading
                .entries
                .iter()
                .map(|it| it.prefix.to_string())
                .collect();
            assert_eq!(prefixes, ["192.0.2.0/24", "2001:db8::/32"], "{text}");
        }
    }
}

#[test]
fn sources_that_firewalls_drop_are_read() {
    check(
        "# Generated by iptables-save v1.8.9\n\
         *filter\n\
         :INPUT ACCEPT [0:0]\n\
         :f2b-sshd - [0:0]\n\
         -A INPUT -p tcp -m multiport --dports 22 -j f2b-sshd\n\
         -A f2b-sshd -s 192.0.2.5/32 -j REJECT --reject-with icmp-port-unreachable\n\
         [1:2] -A INPUT -s 198.51.100.0/24 -m comment --comment \"a b\" -j DROP\n\
         -A INPUT -s 192.0.2.6/32 -p tcp --dport 22 -j DROP\n\
         -A OUTPUT -s 192.0.2.7/32 -j DROP\n\
         -A INPUT ! -s 192.0.2.8/32 -j DROP\n\
         -A f2b-sshd -j RETURN\n\
         COMMIT\n",
        Format::Iptables,
        "192.0.2.5\n198.51.100.0/24 a b",
        &[(NO_DROP, 2), (CONDITIONS, 3)],
    );
    check(
        "#!/bin/sh\n\
         iptables -F\n\
         /sbin/iptables -w -I INPUT 1 -s 192.0.2.5,192.0.2.6 -j DROP # bad\n\
         ip6tables -A INPUT -s 2001:db8::/32 -j DROP\n",
        Format::Iptables,
        "192.0.2.5\n192.0.2.6\n2001:db8::/32",
        &[],
    );
    check(
        "Chain INPUT (policy ACCEPT)\n\
         target     prot opt source               destination\n\
         DROP       all  --  192.0.2.5            0.0.0.0/0            /* why */\n\
         REJECT     0    --  192.0.2.6            0.0.0.0/0            reject-with \
         icmp-port-unreachable\n\
         DROP       tcp  --  192.0.2.7            0.0.0.0/0            tcp dpt:22\n\
         ACCEPT     all  --  192.0.2.8            0.0.0.0/0\n",
        Format::Iptables,
        "192.0.2.5 why\n192.0.2.6",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
    check(
        "Status: active\n\n\
         To                         Action      From\n\
         --                         ------      ----\n\
         22/tcp                     ALLOW IN    Anywhere\n\
         Anywhere                   DENY IN     192.0.2.5                  # why\n\
         [ 3] Anywhere                   REJECT IN   198.51.100.0/24\n\
         80/tcp                     DENY IN     192.0.2.6\n\
         Anywhere (v6)              DENY IN     2001:db8::/32\n",
        Format::Ufw,
        "192.0.2.5 why\n198.51.100.0/24\n2001:db8::/32",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
    check(
        "ufw deny from 192.0.2.5\n\
         ufw insert 1 deny from 192.0.2.6 to any comment 'x y'\n\
         ufw deny from 192.0.2.7 to any port 22\n",
        Format::Ufw,
        "192.0.2.5\n192.0.2.6 x y",
        &[(CONDITIONS, 1)],
    );
    check(
        "# 2026-11-27 16:00:00 by RouterOS 7.12\n\
         /ip firewall address-list\n\
         add address=192.0.2.0/24 list=bad comment=\"a b\"\n\
         add address=198.51.100.7 list=bad timeout=1d02:00:00\n\
         add address=198.51.100.8 disabled=yes list=bad\n\
         add address=example.net list=bad\n\
         add list=bad address=198.51.100.9 comment=\\\n    \
         long\n",
        Format::MikroTik,
        "192.0.2.0/24 a b\n198.51.100.7 +93600s\n198.51.100.9 long",
        &[("disabled", 1), ("of a rule with a name", 1)],
    );
    check(
        "/ip firewall filter\n\
         add action=drop chain=input src-address=192.0.2.5\n\
         add action=drop chain=input protocol=tcp src-address=192.0.2.6\n\
         add action=accept chain=input\n",
        Format::MikroTik,
        "192.0.2.5",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
    check(
        ":do { add list=bad address=192.0.2.0/24 } on-error={}\n",
        Format::MikroTik,
        "192.0.2.0/24",
        &[],
    );
    check(
        "ext_if = \"em0\"\n\
         set skip on lo\n\
         table <bad> persist { 192.0.2.5, 198.51.100.0/24 \\\n  \
         203.0.113.7 }\n\
         block in quick from <bad> to any\n\
         block drop in quick from { 192.0.2.8 } to any\n\
         block in on em0 from 192.0.2.9\n\
         pass out all\n",
        Format::Pf,
        "192.0.2.5\n198.51.100.0/24\n203.0.113.7\n192.0.2.8",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
}

#[test]
fn sources_that_servers_deny_are_read() {
    check(
        "# /etc/hosts.deny\n\
         ALL: 192.0.2.5\n\
         sshd: 198.51.100.0/255.255.255.0\n\
         ALL: 10.0.0. [2001:db8::]/32 .example.net\n\
         ALL: ALL\n\
         sshd: 192.0.2.6 : ALLOW\n",
        Format::HostsDeny,
        "192.0.2.5\n198.51.100.0/24 hosts.deny sshd\n10.0.0.0/24\n2001:db8::/32",
        &[(NO_DROP, 1), ("of a rule with a name", 1), (NO_SOURCE, 1)],
    );
    check(
        "server {\n  \
         location / {\n    \
         allow 10.0.0.1;\n    \
         deny 192.0.2.5;\n    \
         deny 2001:db8::/32; # why\n    \
         deny all;\n  \
         }\n\
         }\n",
        Format::WebServer,
        "192.0.2.5\n2001:db8::/32",
        &[(NO_DROP, 1), (NO_SOURCE, 1)],
    );
    check(
        "geo $bad {\n  default 0;\n  192.0.2.0/24 1;\n  198.51.100.7 0;\n}\n",
        Format::WebServer,
        "192.0.2.0/24",
        &[(NO_DROP, 1)],
    );
    check(
        "Order Allow,Deny\n\
         Allow from all\n\
         Deny from 192.0.2.5 198.51.100\n\
         Deny from env=bad\n\
         <RequireAll>\n\
         Require all granted\n\
         Require not ip 203.0.113.0/24\n\
         </RequireAll>\n",
        Format::WebServer,
        "192.0.2.5\n198.51.100.0/24\n203.0.113.0/24",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
    check(
        "192.0.2.5 # lfd: (sshd) failed\n\
         tcp|in|d=22|s=192.0.2.6 # port\n\
         udp|out|d=53|d=192.0.2.7\n\
         Include /etc/csf/more.deny\n\
         192.0.2.8\n",
        Format::Plain,
        "192.0.2.5 lfd: (sshd) failed\n192.0.2.8",
        &[(CONDITIONS, 2), ("of another file", 1)],
    );
}

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
fn what_is_no_list_is_named() {
    for (bytes, expected) in [
        (
            &b"404: Not Found"[..],
            "is what a server says: `404: Not Found`",
        ),
        (
            b"HTTP/1.1 403 Forbidden\r\n",
            "is what a server says: `HTTP/1.1 403 Forbidden`",
        ),
        (
            b"error code: 1020",
            "is what a server says: `error code: 1020`",
        ),
        (
            b"Too many requests, slow down\n",
            "is what a server says: `Too many requests, slow \
                                             down`",
        ),
        (
            b"{\"message\":\"API rate limit exceeded\"}",
            "is what a server says: `API rate limit \
                                                        exceeded`",
        ),
        (
            b"{\"errors\":[{\"detail\":\"Authentication failed.\",\"status\":401}]}",
            "is what a server says: `Authentication failed.`",
        ),
        (
            b"<?xml version=\"1.0\"?>\n\
           <Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
            "is what a server says: `Access Denied`",
        ),
        (
            b"\0\0\x01\xab\xcd\xefMaxMind.com\xe9[binary_format",
            "is a database of MaxMind (mmdb)",
        ),
        (b"BZh91AY&SY", "is compressed (bzip2)"),
        (b"SQLite format 3\0", "is a database of SQLite"),
        (b"\x01\x02\0\x03", "is no text"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "is a pointer of Git LFS",
        ),
        (
            "╭────╮\n\
          │ ID │ Source │ Scope:Value │ Reason │\n"
                .as_bytes(),
            "is the table that cscli shows to people",
        ),
        (
            b"+----+\n\
           | ID | SOURCE | SCOPE:VALUE | REASON |\n",
            "is the table that cscli shows to people",
        ),
        (b"1\09\0", "is UTF-16"),
        (b"{\\rtf1\\ansi 192.0.2.1", "is RTF"),
        (b"PK\x03\x04\x14\0[Content_Types].xml", "is a workbook"),
        (
            b"Status\n\
           |- Number of jail:\t1\n\
           `- Jail list:\tsshd\n",
            "is the list of fail2ban's jails",
        ),
        (b"0.0.0.0 ads.example.net\n", "is a hosts file"),
    ] {
        let error = read_bytes(bytes, Vetting::default()).unwrap_err();
        assert!(
            error.error.starts_with(&format!("list: {expected}")),
            "{}",
            error.error
        );
    }
}

/// Each line of 60 characters is a hundred prefixes.
#[test]
fn more_entries_than_there_is_room_for_are_refused_while_they_are_read() {
    let line = "2001:db8:1::1-2001:db8:1:ffff:ffff:ffff:ffff:fffe\n";
    let error = read_text(&line.repeat(14_000)).unwrap_err();
    assert_eq!(
        error.error,
        "list: it has more than 2097152 entries, the maximum"
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

const OTHER: &str = "of no address but something else";

/// Each was read in part, or as something else.
#[test]
fn tables_lose_no_address() {
    let both = "192.0.2.1\n2001:db8::1\n2001:db8::2";
    for (text, expected, skipped) in [
        (
            "ip,ipv6\n192.0.2.1,2001:db8::1\n,2001:db8::2\n",
            both,
            &[][..],
        ),
        (
            "network,netmask\n192.0.2.0,255.255.255.0\n",
            "192.0.2.0/24",
            &[],
        ),
        ("ip,bits\n192.0.2.0,25\n", "192.0.2.0/25", &[]),
        ("sep=;\r\nIP;Grund\r\n192.0.2.1;a\r\n", "192.0.2.1", &[]),
        (
            "ip,action\n192.0.2.1,block\n192.0.2.2,allow\n",
            "192.0.2.1",
            &[("let through there", 1)],
        ),
        (
            "| IP | Why |\n|----|-----|\n| 192.0.2.1 | a |\n",
            "192.0.2.1",
            &[(OTHER, 1)],
        ),
        (
            "id,type,value\n1,ip-src,192.0.2.1\n2,ip-dst|port,192.0.2.2|443\n3,domain,a.example\n",
            "192.0.2.1\n192.0.2.2",
            &[(OTHER, 1)],
        ),
    ] {
        check(text, Format::Csv, expected, skipped);
    }
    check(
        "192.0.2.1\r192.0.2.2\r",
        Format::Plain,
        "192.0.2.1\n192.0.2.2",
        &[],
    );
    check(
        "     12 192.0.2.1\n      3 192.0.2.2\n",
        Format::Plain,
        "192.0.2.1\n192.0.2.2",
        &[],
    );
}

#[test]
fn indicators_and_exports_in_json_are_read() {
    for (text, expected, skipped) in [
        (
            r#"[{"pattern":"[ipv4-addr:value = '192.0.2.1' OR ipv6-addr:value = '2001:db8::/32']"},
              {"pattern":"[domain-name:value = 'a.example']"}]"#,
            "192.0.2.1\n2001:db8::/32",
            &[(OTHER, 1)][..],
        ),
        (
            r#"{"Attribute":[{"type":"ip-src","value":"192.0.2.1"},
              {"type":"domain","value":"a.example"},{"value":"192.0.2.2|443"}]}"#,
            "192.0.2.1\n192.0.2.2",
            &[(OTHER, 1)],
        ),
        (
            r#"{"alias":{"a":{"content":"192.0.2.1\n198.51.100.0/25","description":"x"}}}"#,
            "192.0.2.1\n198.51.100.0/25",
            &[],
        ),
        (
            r#"{"data":[{"name":"x","ipaddr4":"192.0.2.1","ipaddr6":"2001:db8::1"}]}"#,
            "192.0.2.1\n2001:db8::1",
            &[],
        ),
    ] {
        check(text, Format::Json, expected, skipped);
    }
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
fn what_would_be_lost_or_banned_by_mistake_is_refused() {
    for (text, expected) in [
        (
            r#"[{"address":"192.0.2.0","mask":24}]"#,
            "the key `mask` has the lengths of `address`",
        ),
        (
            r#"[{"start":"192.0.2.0","end":"192.0.2.9"}]"#,
            "ranges are not read from JSON",
        ),
        (
            r#"[{"ip":"192.0.2.1","mode":"block"},{"ip":"192.0.2.2","mode":"whitelist"}]"#,
            "some of these are let through: `mode` is `whitelist`",
        ),
        (
            r#"{"blacklist":["192.0.2.1"],"whitelist":["192.0.2.2"]}"#,
            "several keys have addresses: `blacklist, whitelist`",
        ),
        (
            "rule remoteip=192.0.2.1,192.0.2.2\n",
            "`rule` is not an address",
        ),
        (
            "a=192.0.2.1,192.0.2.2,x\nb=192.0.2.3,192.0.2.4,y\n",
            "the columns 1 and 2 both have",
        ),
        (
            "-A INPUT -s 192.0.2.1 -j DROP\n192.0.2.2\n",
            "this address is not part of a rule",
        ),
        (
            "deny 192.0.2.1;\n192.0.2.2\n",
            "this address is not part of a rule",
        ),
        (
            "block in from 192.0.2.1\n192.0.2.2\n",
            "this address is not part of a rule",
        ),
        ("Connect:192.0.2.1 OK\n", "`OK` is not an address"),
        ("1,b,c\n2,d,e\n", "no column has addresses"),
        (
            "S>* 192.0.2.0/24 [1/0] unreachable\n",
            "`S>*` is not an address",
        ),
    ] {
        let bad = read_text(text).unwrap().bad.to_string();
        assert!(bad.contains(expected), "{text}\n{bad}");
    }
}
