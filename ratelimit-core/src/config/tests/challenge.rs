use std::{num::NonZeroU32, time::Duration};

use ratelimit_common::{Cursor, DropReason, Instant, Verdict, challenge::Trigger};

use super::*;
use crate::{api::PacketRequest, class::Catalogue, compile::Compiled};

#[test]
fn sources_are_challenged_where_it_is_written() {
    let challenge =
        |keys: &str| load_text(&format!("{MINIMAL}[challenge.tcp]\n{keys}\n")).challenge;
    let reported = |keys| challenge(keys).unwrap().to_string();
    assert_eq!(
        reported("when = \"over 5_000 syn/s\""),
        "over 5000 syn/s, by rst, for 10m, at most 1000000 answers a second"
    );
    assert_eq!(
        reported(
            "when = \"always\"\nfor = \"30s\"\nanswers_per_second = 7\nmethod = \"syncookie\""
        ),
        "always, by syncookie, for 30s, at most 7 answers a second"
    );
    assert_eq!(challenge("when = \"never\""), None);
    assert_eq!(load_text(MINIMAL).challenge, None);
    let over = challenge("when = \"over 16777215 syn/s\"\nfor = \"24h\"").unwrap();
    assert_eq!(
        over.connections,
        Trigger::Over(NonZeroU32::new(16_777_215).unwrap())
    );
    assert_eq!(over.lasts, Duration::from_hours(24));
}

#[test]
fn connections_to_some_destinations_and_ports_are_challenged_where_it_is_written() {
    let challenge = |keys: &str| {
        let toml = format!("{MINIMAL}[challenge.tcp]\nwhen = \"always\"\n{keys}\n");
        load_text(&toml).challenge.unwrap()
    };
    let both =
        challenge("destinations = [\"198.51.100.7\", \"2001:db8::/64\"]\nports = [443, 8443]");
    assert_eq!(
        both.to_string(),
        "always to 198.51.100.7, 2001:db8::/64, ports 443, 8443, by rst, for 10m, at most 1000000 \
         answers a second"
    );
    let catalogue = Catalogue::default();
    let is_of = |to: &str, port| syn(Some(to), Some(port)).is_challenged(&both, &catalogue);
    assert!(is_of("198.51.100.7", 443) && is_of("2001:db8::9", 8443));
    assert!(!is_of("198.51.100.8", 443) && !is_of("198.51.100.7", 80));
    assert!(syn(None, None).is_challenged(&both, &catalogue));
    assert!(!syn(None, Some(80)).is_challenged(&both, &catalogue));
    let elsewhere = syn(Some("198.51.100.8"), Some(80));
    assert!(elsewhere.is_challenged(&challenge(""), &catalogue));
    check_behind_minimal(
        "[challenge.tcp]\nwhen = \"always\"\ndestinations = []\nports = [0]\n",
        r#"config.toml:10:16: `destinations` has 0 destinations
10 | destinations = []
   |                ^^ write from 1 to 8 destinations, as in destinations = ["198.51.100.7"]
config.toml:11:10: `ports` is out of range
11 | ports = [0]
   |          ^ write a number from 1 to 65535"#,
    );
}

#[test]
fn syns_of_some_classes_are_challenged_where_it_is_written() {
    const CLASSES: &str = "[class.web]\ndestination_ports = [\"80-89\", 443]\n\
                           [class.plain]\nprotocol = \"tcp\"\nlength = [40, 44]\n";
    let config = |keys: &str| {
        load_text(&format!(
            "{MINIMAL}{CLASSES}[challenge.tcp]\nwhen = \"over 9 syn/s\"\n{keys}\n"
        ))
    };
    let is_of = |config: &Config, packet: &PacketRequest| {
        let challenge = config.challenge.as_ref().unwrap();
        packet.is_challenged(challenge, &config.classes)
    };
    let web = config("classes = [\"web\"]\ndestinations = [\"198.51.100.7\"]");
    assert_eq!(
        web.challenge.as_ref().unwrap().to_string(),
        "over 9 syn/s of class web to 198.51.100.7, by rst, for 10m, at most 1000000 answers a \
         second"
    );
    for (to, port, expected) in [
        (Some("198.51.100.7"), Some(85), true),
        (Some("198.51.100.7"), None, true),
        (None, Some(443), true),
        (None, Some(90), false),
        (Some("198.51.100.8"), Some(443), false),
    ] {
        assert_eq!(is_of(&web, &syn(to, port)), expected, "{to:?} {port:?}");
    }
    // Unknown fields of a packet match anything, and one of the classes is enough.
    let both = config("classes = [\"web\", \"plain\", \"tcp-syn\"]");
    let reported = both.challenge.as_ref().unwrap().of_classes();
    assert_eq!(reported.as_deref(), Some("classes web, plain, tcp-syn"));
    assert!(is_of(&both, &syn(None, Some(90))));
    // Classes are recognized even if no limit counts them.
    let judged = |keys: &str, port: u16, bytes: u16| {
        let tables = Compiled::new(config(keys), vec![]).unwrap().memory_tables();
        let now = Instant::from_nanos(1 << 40);
        let verdicts = (0..20).map(|_| tables.judge(Cursor::new(&frame(port, bytes)), now));
        let challenged = verdicts.filter(|it| *it == Verdict::Drop(DropReason::Challenged));
        challenged.count()
    };
    for (keys, port, bytes, expected) in [
        ("", 80, 60, 8),
        ("classes = [\"web\"]", 80, 60, 8),
        ("classes = [\"web\"]", 90, 60, 0),
        ("classes = [\"plain\"]", 90, 60, 0),
        ("classes = [\"plain\"]", 90, 44, 8),
        ("classes = [\"plain\", \"web\"]", 90, 60, 0),
        ("classes = [\"plain\", \"web\"]", 90, 40, 8),
        ("classes = [\"plain\"]\nports = [91]", 90, 40, 0),
        ("destinations = [\"198.51.100.7\"]", 80, 60, 8),
        ("destinations = [\"198.51.100.8\"]", 80, 60, 0),
    ] {
        assert_eq!(judged(keys, port, bytes), expected, "{keys} {port} {bytes}");
    }
}

/// A SYN to a port, in an IPv4 packet with this length.
fn frame(port: u16, bytes: u16) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(bytes.to_be_bytes());
    frame.extend([
        0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7, 0xc0, 1,
    ]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 0, 0, 7, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    frame
}

/// Descriptions of a SYN.
fn syn(to: Option<&str>, port: Option<u16>) -> PacketRequest {
    PacketRequest {
        to: to.map(|to| to.parse().unwrap()),
        destination_port: port,
        ..PacketRequest::default()
    }
}

#[test]
fn sources_are_challenged_for_queries_where_it_is_written() {
    let challenge = |toml: &str| load_text(&format!("{MINIMAL}{toml}\n")).challenge;
    let reported = |toml| challenge(toml).unwrap().to_string();
    assert_eq!(
        reported("[challenge.dns]\nwhen = \"over 5_000 packets/s\""),
        "never, by rst, for 10m, at most 1000000 answers a second; of DNS over 5000 packets/s, to \
         port 53"
    );
    assert_eq!(
        reported(
            "[challenge.tcp]\nwhen = \"never\"\nfor = \"30s\"\nanswers_per_second = 7\n\
             [challenge.dns]\nwhen = \"always\"\nports = [53, 5353]"
        ),
        "never, by rst, for 30s, at most 7 answers a second; of DNS always, to ports 53, 5353"
    );
    let back_off = |keys: &str| {
        let toml = format!("[challenge.tcp]\nwhen = \"always\"\n{keys}");
        challenge(&toml).unwrap().back_off
    };
    assert_eq!(back_off(""), Some(Duration::from_mins(1)));
    assert_eq!(back_off("back_off = \"5s\""), Some(Duration::from_secs(5)));
    assert_eq!(back_off("back_off = \"never\""), None);
    let never = "[challenge.dns]\nwhen = \"never\"";
    assert_eq!(challenge(never), None);
    let tcp = challenge(&format!("[challenge.tcp]\nwhen = \"always\"\n{never}")).unwrap();
    assert_eq!((tcp.queries, tcp.ports().count()), (Trigger::Never, 0));
}
