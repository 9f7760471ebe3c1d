use std::net::IpAddr;

use ratelimit_common::parse::transport::NO_PORT;

use super::*;

#[test]
fn what_follows_from_ports_and_flags_need_not_be_said() {
    let cases = [
        (
            r#"{"tcp": "syn"}"#,
            r#"{"protocol": ["tcp"], "tcp": "syn"}"#,
        ),
        (
            r#"{"source_ports": ["53"]}"#,
            r#"{"protocol": ["tcp", "udp", "sctp", "dccp", "udplite"], "source_ports": ["53"]}"#,
        ),
        (
            r#"{"destination_ports": ["80-90", "85-100", "101"]}"#,
            r#"{"destination_ports": ["101", "80-100"]}"#,
        ),
        (r#"{"protocol": ["icmp"]}"#, r#"{"protocol": ["58", "1"]}"#),
    ];
    for (short, long) in cases {
        assert_eq!(class(short), class(long));
    }
}

#[test]
fn a_class_reads_back_as_written() {
    for text in [
        r#"{"protocol":["udp"],"source_ports":["53","8000-8100"],"fragment":false}"#,
        r#"{"protocol":["tcp"],"tcp":"invalid"}"#,
        r#"{"protocol":["icmp","47"]}"#,
        r#"{"fragment":true}"#,
        r#"{"destination":["10.0.0.0/8","2001:db8::/48"]}"#,
    ] {
        let class = class(text);
        let again = serde_json::to_string(&class).unwrap();
        assert_eq!(serde_json::from_str::<Class>(&again).unwrap(), class);
    }
    for name in BUILT_IN {
        let Ok(Selected::Class(class)) = named(name) else {
            continue;
        };
        let text = serde_json::to_string(&class).unwrap();
        assert_eq!(
            serde_json::from_str::<Class>(&text).unwrap(),
            class,
            "{text}"
        );
    }
}

#[test]
fn a_class_that_no_packet_or_every_packet_belongs_to_is_refused() {
    for (text, expected) in [
        ("{}", "the class has no conditions"),
        (r#"{"protocol": []}"#, "the list of `protocol` is empty"),
        (
            r#"{"source_ports": []}"#,
            "the list of `source_ports` is empty",
        ),
        (
            r#"{"protocol": ["icmp"], "source_ports": ["1"]}"#,
            "icmp has no ports",
        ),
        (
            r#"{"protocol": ["udp"], "tcp": "syn"}"#,
            "udp has no TCP flags",
        ),
        (r#"{"destination_ports": ["9-8"]}"#, "ends before it begins"),
        (
            r#"{"destination_ports": ["70000"]}"#,
            "there is no port 70000",
        ),
        (r#"{"destination_ports": ["http"]}"#, "is not a port"),
        (r#"{"protocol": ["256"]}"#, "there is no protocol `256`"),
    ] {
        let error = serde_json::from_str::<Class>(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn packets_of_two_classes_are_named_by_an_example() {
    let dns = r#"{"protocol": ["udp"], "source_ports": ["53"]}"#;
    let web = r#"{"destination_ports": ["443", "80"]}"#;
    let cases = [
        (dns, web, Some("udp from port 53 to port 80")),
        (dns, r#"{"protocol": ["tcp"]}"#, None),
        (r#"{"tcp": "syn"}"#, web, Some("tcp with SYN to port 80")),
        (
            r#"{"tcp": "syn"}"#,
            r#"{"tcp": "invalid"}"#,
            Some("tcp with SYN and FIN"),
        ),
        (
            r#"{"fragment": true}"#,
            r#"{"protocol": ["icmp"]}"#,
            Some("icmp in fragments"),
        ),
        (
            r#"{"fragment": true}"#,
            dns,
            Some("udp in fragments from port 53"),
        ),
        (
            r#"{"source_ports": ["1-9"]}"#,
            r#"{"source_ports": ["10-19"]}"#,
            None,
        ),
        (
            r#"{"destination": ["10.0.0.0/8", "2001:db8::/32"]}"#,
            r#"{"destination": ["2001:db8:7::/48", "192.0.2.1"], "tcp": "syn"}"#,
            Some("tcp with SYN to 2001:db8:7::/48"),
        ),
        (
            r#"{"destination": ["10.0.0.0/8"]}"#,
            r#"{"destination": ["11.0.0.0/8", "2001:db8::/32"]}"#,
            None,
        ),
        (
            r#"{"destination": ["10.0.0.0/8"]}"#,
            web,
            Some("tcp to port 80 to 10.0.0.0/8"),
        ),
    ];
    for (one, other, expected) in cases {
        let (one, other) = (class(one), class(other));
        assert_eq!(
            one.example_in_both(&other).as_deref(),
            expected,
            "{one}, {other}"
        );
        assert_eq!(
            other.example_in_both(&one).as_deref(),
            expected,
            "{other}, {one}"
        );
    }
}

#[test]
fn a_class_is_within_another_when_all_of_its_packets_are() {
    let cases = [
        (
            r#"{"protocol": ["udp"], "source_ports": ["53"]}"#,
            r#"{"protocol": ["udp"]}"#,
            true,
        ),
        (r#"{"tcp": "syn"}"#, r#"{"protocol": ["tcp"]}"#, true),
        (r#"{"protocol": ["tcp"]}"#, r#"{"tcp": "syn"}"#, false),
        (
            r#"{"source_ports": ["5-6"]}"#,
            r#"{"source_ports": ["1-9"]}"#,
            true,
        ),
        (
            r#"{"source_ports": ["5-10"]}"#,
            r#"{"source_ports": ["1-9"]}"#,
            false,
        ),
        (
            r#"{"destination": ["10.1.0.0/16", "10.2.0.0/16"]}"#,
            r#"{"destination": ["10.0.0.0/8"]}"#,
            true,
        ),
        (
            r#"{"destination": ["10.1.2.0/24"]}"#,
            r#"{"destination": ["10.1.0.0/24", "10.7.2.0/24"]}"#,
            false,
        ),
        (
            r#"{"tcp": "syn"}"#,
            r#"{"destination": ["10.0.0.0/8"]}"#,
            false,
        ),
    ];
    for (one, other, expected) in cases {
        assert_eq!(
            class(one).is_within(&class(other)),
            expected,
            "{one}, {other}"
        );
    }
}

#[test]
fn every_built_in_name_has_packets() {
    for name in BUILT_IN {
        assert!(named(name).is_ok(), "{name}");
    }
    let Ok(Selected::Class(reflection)) = named("reflection") else {
        panic!("it is a class");
    };
    let has_source = |port| reflection.has(Property::SourcePort, port);
    assert!(has_source(11_211) && !has_source(443) && !has_source(NO_PORT));
    assert!(reflection.has(Property::DestinationPort, NO_PORT));
    assert!(named("tcp-sny").is_err());
}

#[test]
fn the_octets_of_each_part_say_exactly_which_destinations_the_class_has() {
    let addresses = [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.1.1",
        "10.0.1.2",
        "10.0.128.1",
        "10.0.127.255",
        "11.0.0.1",
        "10.8.0.1",
        "192.0.2.1",
        "2001:db8::1",
        "2001:db8:1::1",
        "2001:db8:0:1::1",
        "::10.0.0.1",
    ];
    for (prefixes, count) in [
        (&["10.0.0.1", "10.0.0.2", "10.0.0.4"][..], 1),
        (&["10.0.0.1", "2001:db8::/48"], 1),
        (&["10.0.0.1", "10.0.1.2"], 2),
        (&["10.0.0.1", "10.0.0.2", "10.0.1.1"], 2),
        (&["10.0.0.0/24", "10.0.1.0/24", "10.0.128.0/24"], 1),
        (
            &[
                "10.0.0.0/17",
                "10.8.0.0/17",
                "2001:db8::/64",
                "2001:db8:1::/48",
            ],
            2,
        ),
        (&["10.0.0.0/24", "10.0.1.0/25"], 2),
        (&["0.0.0.0/0"], 1),
        (&["2001:db8::/47"], 1),
    ] {
        let text = serde_json::json!({ "destination": prefixes }).to_string();
        let parts = class(&text).by_destination();
        assert_eq!(parts.len(), count, "{text}");
        for address in addresses {
            let address: IpAddr = address.parse().unwrap();
            let of = |property, octets: &[u8]| {
                let values = (0..)
                    .zip(octets)
                    .map(|(place, octet)| place << 8 | u32::from(*octet));
                let values: Vec<u32> = values.collect();
                let has = |part: &Class| values.iter().all(|value| part.has(property, *value));
                parts.iter().filter(|part| has(part)).count()
            };
            let found = match address {
                IpAddr::V4(address) => of(Property::DestinationV4, &address.octets()),
                IpAddr::V6(address) => of(Property::DestinationV6, &address.octets()),
            };
            let prefixes = prefixes.iter().map(|it| it.parse::<Prefix>().unwrap());
            let own = prefixes.filter(|prefix| prefix.covers(Prefix::from(address)));
            assert_eq!(found, own.count(), "{text} {address}");
        }
    }
}

fn named(name: &str) -> Result<Selected, UnknownClass> {
    Catalogue::default().select(&Match::Named(name.to_owned()))
}

fn class(text: &str) -> Class {
    serde_json::from_str(text).unwrap()
}
