//! Files that the tools wrote: ipset 7.17, nft 1.0.6 and cscli 1.4.6 of Debian 12; those of
//! `FireHOL` and Spamhaus are cut.

use super::*;

const FORCED: Vetting = Vetting {
    force: true,
    action: None,
    min_count: None,
    json_path: None,
};

#[test]
fn addresses_prefixes_and_ranges_are_read_with_their_comments() {
    check(
        include_bytes!("samples/ranges.txt"),
        Format::Plain,
        "192.0.2.1 a subnet\n\
         192.0.2.2/31 a subnet\n\
         192.0.2.4/31 a subnet\n\
         192.0.2.6 a subnet\n\
         198.51.100.0/24\n\
         2001:db8::1\n\
         2001:db8::2\n\
         203.0.113.7",
    );
}

#[test]
fn it_is_reported_how_many_prefixes_ranges_are() {
    let notes = |text: &str| {
        read_bytes(text.as_bytes(), Vetting::default())
            .unwrap()
            .notes
    };
    let one = "192.0.2.1-192.0.2.6\n";
    assert_eq!(notes(one), ["one range is 4 prefixes"]);
    let two = "192.0.2.1-192.0.2.6\n2001:db8::1-2001:db8::2\n198.51.100.7-198.51.100.7\n";
    assert_eq!(notes(two), ["2 ranges are 6 prefixes"]);
    assert!(notes("198.51.100.0-198.51.100.255\n192.0.2.1\n").is_empty());
}

#[test]
fn a_netset_of_firehol_is_read_by_force_because_of_its_bogons() {
    let sample = include_bytes!("samples/firehol_level1.netset");
    let reading = read_bytes(sample, FORCED).unwrap();
    assert_eq!(reading.format, Format::Netset);
    assert_eq!(
        entries(&reading),
        "0.0.0.0/8\n1.10.16.0/20\n1.19.0.0/16\n198.51.100.42\n224.0.0.0/3"
    );
    let reading = read_bytes(sample, Vetting::default()).unwrap();
    assert_eq!(reading.bad.count, 1);
    assert!(
        reading
            .bad
            .to_string()
            .contains("`224.0.0.0/3` is wider than /8")
    );
}

#[test]
fn drop_of_spamhaus_is_read_as_text() {
    check(
        include_bytes!("samples/spamhaus-drop.txt"),
        Format::DropText,
        "1.10.16.0/20 SBL256894\n1.19.0.0/16 SBL434604\n5.134.128.0/19 SBL270738",
    );
}

#[test]
fn drop_of_spamhaus_is_read_as_json() {
    check(
        include_bytes!("samples/spamhaus-drop.json"),
        Format::DropJson,
        "1.10.16.0/20 SBL256894\n1.19.0.0/16 SBL434604\n2a06:e480::/29 SBL301771",
    );
}

#[test]
fn sets_of_ipset_are_read_with_timeouts_and_comments() {
    check(
        include_bytes!("samples/ipset-hosts.save"),
        Format::Ipset,
        "192.0.2.11\n192.0.2.1\n192.0.2.9\n192.0.2.10\n192.0.2.8",
    );
    check(
        include_bytes!("samples/ipset-blocked6.save"),
        Format::Ipset,
        "2001:db8::/32 say hi\n2001:db8:ffff::1 hey # x",
    );
    let reading = read_bytes(
        include_bytes!("samples/ipset-blocked.save"),
        Vetting::default(),
    );
    let reading = reading.unwrap();
    assert_eq!(
        entries(&reading),
        "192.0.2.0/24 +299s login flood\n198.51.100.7\n10.0.0.0/8 +599s"
    );
    assert_eq!(reading.bad.count, 1, "the exception (nomatch)");
}

#[test]
fn entries_of_a_set_with_a_netmask_are_networks() {
    check(
        include_bytes!("samples/ipset-nets.save"),
        Format::Ipset,
        "192.0.2.0/24",
    );
}

#[test]
fn several_sets_of_a_family_are_not_mixed() {
    let reading = read_bytes(include_bytes!("samples/ipset-all.save"), Vetting::default());
    let bad = reading.unwrap().bad.to_string();
    assert!(
        bad.contains("there is a second set, `hosts`, after `blocked`"),
        "{bad}"
    );
    assert!(
        bad.contains("import one of them: ipset save blocked"),
        "{bad}"
    );
    let reading = read_bytes(
        include_bytes!("samples/nft-ruleset.nft"),
        Vetting::default(),
    );
    let bad = reading.unwrap().bad.to_string();
    assert!(
        bad.contains("there is a second set, `plain4`, after `blackhole`"),
        "{bad}"
    );
    let reading = read_bytes(
        include_bytes!("samples/nft-ruleset.json"),
        Vetting::default(),
    );
    let bad = reading.unwrap().bad.to_string();
    assert!(
        bad.contains("there is a second set, `plain4`, after `blackhole`"),
        "{bad}"
    );
}

#[test]
fn a_set_of_nft_is_read_as_text() {
    check(
        include_bytes!("samples/nft-blackhole.nft"),
        Format::Nft,
        "10.0.0.1\n\
         10.0.0.2/31\n\
         10.0.0.4/30\n\
         172.16.0.0/12\n\
         192.0.2.0/24 +86399s login flood\n\
         198.51.100.7",
    );
    check(
        include_bytes!("samples/nft-six.nft"),
        Format::Nft,
        "2001:db8:ffff::1\n\
         2001:db8:ffff::2/127\n\
         2001:db8:ffff::4/126\n\
         2001:db8:ffff::8/127\n\
         2001:db9::/32",
    );
}

#[test]
fn a_set_of_nft_is_read_as_json() {
    check(
        include_bytes!("samples/nft-blackhole.json"),
        Format::NftJson,
        "10.0.0.1\n\
         10.0.0.2/31\n\
         10.0.0.4/30\n\
         172.16.0.0/12\n\
         192.0.2.0/24 +86399s login flood\n\
         198.51.100.7",
    );
    check(
        include_bytes!("samples/nft-six.json"),
        Format::NftJson,
        "2001:db8:ffff::1\n\
         2001:db8:ffff::2/127\n\
         2001:db8:ffff::4/126\n\
         2001:db8:ffff::8/127\n\
         2001:db9::/32",
    );
}

#[test]
fn a_set_of_nft_1_1_says_in_json_what_it_is_a_type_of() {
    let text = r#"{"nftables": [{"set": {"family": "inet", "name": "a", "table": "t", "type": {"typeof": {"payload": {"protocol": "ip", "field": "saddr"}}}, "elem": ["192.0.2.77"]}},
        {"set": {"family": "inet", "name": "b", "table": "t", "type": {"typeof": {"payload": {"protocol": "tcp", "field": "dport"}}}, "elem": [22]}}]}"#;
    let reading = check(text.as_bytes(), Format::NftJson, "192.0.2.77");
    assert_eq!(reading.skipped.get("of a set of another type"), Some(&1));
}

#[test]
fn statements_of_elements_are_passed_over() {
    check(
        b"table inet t {\n\
          \tset s {\n\
          \t\ttypeof ip saddr\n\
          \t\tflags dynamic,timeout\n\
          \t\telements = \
          { 192.0.2.1 limit rate over 10/second burst 5 packets timeout 1m expires 30s, \
          192.0.2.2 quota 25 mbytes used 3 bytes, \
          192.0.2.3 ct count over 20 counter packets 1 bytes 2 comment \
          \"x\", 192.0.2.4 last used 3s }\n\
          \t}\n\
          }\n",
        Format::Nft,
        "192.0.2.1 +30s\n192.0.2.2\n192.0.2.3 x\n192.0.2.4",
    );
}

#[test]
fn files_for_nft_are_read() {
    check(
        b"add element inet filter bad { 192.0.2.1, 192.0.2.2 timeout 10m }\n",
        Format::Nft,
        "192.0.2.1\n192.0.2.2 +600s",
    );
    check(
        b"define firehol = {\n192.0.2.1,\n198.51.100.0/24,\n}\n",
        Format::Nft,
        "192.0.2.1\n198.51.100.0/24",
    );
}

#[test]
fn bans_of_crowdsec_are_read_as_csv_and_nothing_else_of_it() {
    let sample = include_bytes!("samples/crowdsec-decisions.csv");
    let reading = check(
        sample,
        Format::CrowdSecCsv,
        "198.51.100.0/24 +86399s manual 'ban' from 'test'\n192.0.2.1 +14399s login flood, again",
    );
    let skipped: Vec<(&str, usize)> = reading
        .skipped
        .iter()
        .map(|(why, count)| (why.as_str(), *count))
        .collect();
    assert_eq!(
        skipped,
        [("captcha, not a ban", 1), ("of the scope Country", 1)]
    );
    check(
        b"duration,scope,value\n24h,ip,192.0.2.1\n",
        Format::CrowdSecCsv,
        "192.0.2.1 +86400s",
    );
}

#[test]
fn bans_of_crowdsec_are_read_as_json_and_nothing_else_of_it() {
    let sample = include_bytes!("samples/crowdsec-decisions.json");
    let reading = check(
        sample,
        Format::CrowdSecJson,
        "198.51.100.0/24 +86399s manual 'ban' from 'test'\n192.0.2.1 +14399s login flood, again",
    );
    assert_eq!(reading.skipped.len(), 2);
    // An alert without decisions, as `cscli alerts list -o json` has them.
    check(
        br#"[{"decisions": null, "id": 8}, {"decisions": [{"value": "192.0.2.1"}]}]"#,
        Format::CrowdSecJson,
        "192.0.2.1",
    );
    check(
        br#"[{"duration": "4h", "scope": "ip", "type": "ban", "value": "192.0.2.1"}]"#,
        Format::CrowdSecJson,
        "192.0.2.1 +14400s",
    );
}

#[test]
fn our_own_lines_are_read_with_all_they_say() {
    let text = r#"{"prefix":"192.0.2.0/24","action":"allow","until":"2026-11-21T10:00:00Z","reason":"a \"b\"","by":"root","since":"2026-11-20T00:00:00Z","origin":"list:x"}
{"prefix":"2001:db8::1"}"#;
    let reading = check(
        text.as_bytes(),
        Format::Own,
        "192.0.2.0/24 +3600s a \"b\"\n2001:db8::1",
    );
    let facts = &reading.facts[usize::try_from(reading.entries[0].facts).unwrap()];
    assert_eq!(facts.action, Some(Action::Allow));
    assert_eq!(facts.author.as_deref(), Some("root"));
    assert_eq!(facts.origin.as_deref(), Some("list:x"));
}

#[test]
fn a_line_that_says_something_else_than_the_list_is_for_is_bad() {
    let text = r#"{"prefix":"192.0.2.1","action":"allow"}
{"prefix":"192.0.2.2","action":"ban"}
{"prefix":"192.0.2.3"}"#;
    for (action, bad, taken) in [
        (None, "", "192.0.2.1\n192.0.2.2\n192.0.2.3"),
        (
            Some(Action::Ban),
            "list:1:1: the line says `allow` but the list is to ban",
            "192.0.2.2\n192.0.2.3",
        ),
        (
            Some(Action::Allow),
            "list:2:1: the line says `ban` but the list is to allow",
            "192.0.2.1\n192.0.2.3",
        ),
    ] {
        let vetting = Vetting {
            action,
            ..Vetting::default()
        };
        let reading = read_bytes(text.as_bytes(), vetting).unwrap();
        let reported = reading.bad.to_string();
        assert_eq!(reported.lines().next().unwrap_or_default(), bad);
        assert_eq!(entries(&reading), taken);
    }
}

#[test]
fn what_ended_is_left_out() {
    let text = r#"{"prefix":"192.0.2.1","until":"2026-11-21T08:59:59Z"}"#;
    let reading = check(text.as_bytes(), Format::Own, "");
    assert_eq!(reading.skipped.get("ended already"), Some(&1));
}

fn check(bytes: &[u8], format: Format, expected: &str) -> Reading {
    let reading = read_bytes(bytes, Vetting::default()).unwrap();
    assert_eq!(reading.bad.to_string(), "");
    assert_eq!(entries(&reading), expected);
    assert_eq!(reading.format, format);
    reading
}
