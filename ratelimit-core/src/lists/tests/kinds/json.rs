//! JSON of any kind.

use super::*;

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
fn ranges_in_json_are_read() {
    for (text, expected) in [
        (
            r#"[{"start":"198.51.100.0","end":"198.51.100.255"},{"start":"192.0.2.4","end":"192.0.2.7"}]"#,
            "198.51.100.0/24\n192.0.2.4/30",
        ),
        (
            r#"[{"end":"198.51.100.255","start":"198.51.100.0"}]"#,
            "198.51.100.0/24",
        ),
        (
            r#"{"name":"a","startAddress":"2001:db8::","endAddress":"2001:db8::ffff"}"#,
            "2001:db8::/112",
        ),
        (
            r#"[{"first":"192.0.2.0","last":"192.0.2.1"},{"cidr":"198.51.100.0/24"}]"#,
            "192.0.2.0/31\n198.51.100.0/24",
        ),
        (
            r#"{"ranges":["198.51.100.0 - 198.51.100.255","192.0.2.5"]}"#,
            "198.51.100.0/24\n192.0.2.5",
        ),
        (
            r#"[{"ip":"192.0.2.1","start":"2026-01-01","end":1700000100}]"#,
            "192.0.2.1",
        ),
    ] {
        check(text, Format::Json, expected, &[]);
    }
    for text in [
        r#"[{"start":"198.51.100.0","end":"198.51.100.255"},{"start":"192.0.2.9"}]"#,
        r#"[{"start":"192.0.2.9","end":"192.0.2.1"}]"#,
    ] {
        refuse(text, "`start` is an end of no range");
    }
    let flows = r#"[{"from":"192.0.2.1","to":"10.0.0.1"},{"from":"192.0.2.1","to":"192.0.2.2"}]"#;
    refuse(flows, "`from` is an end of no range");
}

#[test]
fn a_type_says_what_an_indicator_is_or_what_becomes_of_a_decision() {
    for (text, expected, skipped) in [
        (
            r#"[{"id":"1","type":"ip-src","category":"Network activity","value":"192.0.2.1"},
              {"id":"2","type":"domain","value":"a.example"},
              {"id":"3","type":"ip-dst|port","value":"192.0.2.2|443"}]"#,
            "192.0.2.1\n192.0.2.2",
            &[(OTHER, 1)][..],
        ),
        (
            r#"{"objects":[{"type":"indicator","pattern":"[ipv4-addr:value = '192.0.2.1']"},
              {"type":"ipv4-addr","value":"192.0.2.2"}]}"#,
            "192.0.2.1\n192.0.2.2",
            &[],
        ),
    ] {
        check(text, Format::Json, expected, skipped);
    }
    check(
        r#"[{"value":"192.0.2.1","type":"ban"},{"value":"192.0.2.2","type":"captcha"}]"#,
        Format::CrowdSecJson,
        "192.0.2.1",
        &[("captcha, not a ban", 1)],
    );
    let other = r#"{"src_ip":"192.0.2.1","dest_ip":"10.0.0.1"}"#;
    assert_eq!(
        read_text(other).unwrap().notes,
        ["addresses from src_ip, not from dest_ip; --json-path chooses others"]
    );
}
